"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gumbeldore.benchmark import Benchmark, count_of
from gumbeldore.cli import command
from gumbeldore.cli.evaluation import (
    Machine,
    advancing,
    decisive,
    goes_on,
    new_directory,
    open_policies,
    say_notices,
    tasks_of,
    typed,
    without_idle_workers,
)
from gumbeldore.cli.settings import EvaluationSettings
from gumbeldore.evaluation import results
from gumbeldore.evaluation.baseline import Baseline, solve_baseline
from gumbeldore.evaluation.benchmarks import MethodSummary, results_of, solve_benchmark, summarise
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.references import read_table, with_lower_bounds, with_table
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting.console import Terminal
from gumbeldore.reporting.evaluation_report import EvaluationReport
from gumbeldore.runtime.stopping import interruptible
from gumbeldore.sampler.methods import Method


def evaluate(cfg: DictConfig) -> dict[str, MethodSummary]:
    """Solve the instances with every method asked for; prints a table, writes results.json, .csv and report.html."""
    run = EvaluationSettings.of(cfg)
    choices = open_policies(cfg, run)
    machine = Machine.of(run)
    tasks = tasks_of(cfg, choices)
    problem, methods = tasks[0].loaded.problem, list(tasks[0].methods)
    benchmarks = [benchmark for choice in choices for benchmark in choice.benchmarks]
    out_dir = new_directory(run)
    if run.workers == "auto":
        machine = without_idle_workers(machine, tasks, benchmarks)

    paths = [task.loaded.path for task in tasks]
    about: dict[str, Any] = {"checkpoint": ", ".join(map(str, paths)), "instances": run.instances}
    about |= {"policy": "; ".join(reasons)} if (reasons := [x.reason for x in choices if x.reason]) else {}
    about |= {"hardware": str(machine), "precision": machine.precision, "seed": run.seed, "command": typed()}
    manifest = decisive(cfg, machine, paths, benchmarks)
    found: results.Results = {}
    with Terminal() as terminal, interruptible():
        for line in reasons:
            terminal.say(line)
        benchmarks = list(map(with_lower_bounds, add_references(cfg, problem, benchmarks, terminal)))
        report = EvaluationReport(problem, about, terminal)
        with Kept(out_dir, manifest, run.resume) as kept:  # now that nothing of the user's can be wrong any more
            parts_of = {name: [kept.parts(name, place) for place in range(len(benchmarks))] for name in methods}
            try:
                for task in tasks:
                    with machine.pool(task.loaded.problem, task.loaded.policy, run.worker_threads) as pool:
                        for name, method in task.methods.items():
                            with advancing(terminal, name, benchmarks, sum(map(len, parts_of[name]))) as advance:
                                mine, parts = benchmarks[task.places], parts_of[name][task.places]
                                run_method(method, task.loaded.problem, pool, mine, run.seed, parts, advance)
                            if task is tasks[-1]:  # every instance has a solution
                                found |= results_of(name, parts_of[name], benchmarks)
                                report.write_tables(out_dir, found, benchmarks)  # a later method may not finish
            except (KeyboardInterrupt, Exception) as error:
                report.write_finished(out_dir, parts_of, benchmarks)
                if not isinstance(error, KeyboardInterrupt):
                    raise
                raise goes_on(kept.finished(), len(methods) * count_of(benchmarks), out_dir) from None
            report.write_finished(out_dir, parts_of, benchmarks)
    return {name: summarise(solved, benchmarks) for name, solved in found.items()}


def add_references(
    cfg: DictConfig, problem: Problem, benchmarks: list[Benchmark], terminal: Terminal
) -> list[Benchmark]:
    """The benchmarks with the references asked for: of the user's table, or a solver's where there are none.

    What is not as a user may expect of the instances is said before the solver begins.
    """
    if cfg.references not in (None, "solver"):
        benchmarks = with_table(benchmarks, read_table(Path(cfg.references)), cfg.references)
    say_notices(terminal, benchmarks)
    if cfg.references != "solver":
        return benchmarks
    from problems.solvers import Solver, with_references

    solver = Solver(cfg.solver.time_limit, cfg.solver.workers, cfg.seed)
    with advancing(terminal, "references", benchmarks) as advance:
        return [with_references(problem.name, benchmark, solver, advance) for benchmark in benchmarks]


def run_method(
    method: Method | Baseline,
    problem: Problem,
    pool: SearchPool,
    benchmarks: list[Benchmark],
    seed: int,
    parts: list[Parts],
    advance: Callable[[int], None],
) -> None:
    """Add to the `parts` of each benchmark the solutions of a method for the instances that have none there."""
    for benchmark, found in zip(benchmarks, parts, strict=True):
        if isinstance(method, Method):
            solve_benchmark(pool, benchmark, method, seed, advance, found)
        else:
            solve_baseline(method, problem, benchmark, advance, found)


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
