"""Expert datasets: `python -m problems.solvers problem=tsp out=experts.npz`; `--help` lists what can be set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from gumbeldore.cli import command
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.schema import ExpertSettings
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.devices import resolve_workers
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.stopping import interruptible
from gumbeldore.seeding import generator
from gumbeldore.training.dataset import PseudoExperts, Shard
from problems.solvers.backends import backend_of
from problems.solvers.solver import Solver, SolverResult, as_instance_set

OF_TRAINING = "here: solvers know neither training nor networks"
VIEW = ("nearest", "window", "jobs_in_view")
LEARNING = ("grow", "far_first", "chronological", "reversal", "validation_sizes", "validation_capacity")
TRAINING = {f"problem.{key}" for key in VIEW + LEARNING}


def experts(cfg: DictConfig) -> Path:
    """Generate training instances, solve them and write both as one file of pseudo-experts; returns its path.

    What is solved is kept, so the same command continues where an interrupted one stopped.
    """
    config = Configuration(cfg)
    run, problem = config.settings(ExpertSettings), config.part("problem", Problem)
    backend_of(problem.name)
    config.join_cluster(problem)
    for key in TRAINING:
        config.ignores(key, OF_TRAINING)
    config.refuse_unread(OF_TRAINING)
    if chosen := [word for word in config.words if word.startswith(("model=", "recipe="))]:
        raise ValueError(f"{chosen[0]} has no effect {OF_TRAINING}")
    workers = resolve_workers(run.workers, torch.device("cpu"), threads=1)
    solver = Solver(run.time_limit, workers, run.seed, run.patience, threads=run.threads)
    out = new_file(run.out)
    instances = problem.generate(run.num_instances, generator(run.seed, "experts"))

    with Terminal() as terminal:
        result = solve(solver, problem, instances, terminal)
        costs = problem.cost(instances, result.actions)
        new_file(run.out)  # solving takes long: it may be there by now
        PseudoExperts(out.parent).add(Shard(out.stem, instances, result.actions, costs))
        rows = [
            ["instances", f"{run.num_instances:,}"],
            ["mean cost", f"{costs.double().mean():.4f}"],
            ["solver's time per instance", f"{result.seconds.mean():.3g} s"],
        ]
        rows += [[kind, f"{result.kinds.count(kind):,}"] for kind in dict.fromkeys(result.kinds)]
        terminal.table(problem.name, ["", ""], rows)
        terminal.say(f"written: {out}")
    return out


def solve(solver: Solver, problem: Problem, instances: Any, terminal: Terminal) -> SolverResult:
    """Solve generated instances with a progress bar. Raises KeyboardInterrupt, which says what is kept, on Ctrl-C."""
    instance_set = as_instance_set(problem, instances)
    count, done = len(instance_set.names), 0
    terminal.progress("solving", 0, count)

    def advance(solved: int) -> None:
        nonlocal done
        done += solved
        terminal.progress("solving", done, count)

    try:
        with interruptible():
            return solver.solve(problem.name, instance_set, advance)
    except KeyboardInterrupt:
        kept = f"{done} of {count} are solved and kept; the same command solves the others"
        raise KeyboardInterrupt(f"interrupted: {kept}") from None


def new_file(asked: str) -> Path:
    """The file to write. Raises ValueError if it is there already or is no .npz."""
    path = Path(asked)
    if path.suffix != ".npz":
        raise ValueError(f"out must name a .npz file, got {asked}")
    if path.exists():
        raise ValueError(f"out={asked} exists already; choose another")
    return path


def main() -> None:
    command.run(experts, "experts")


if __name__ == "__main__":
    main()
