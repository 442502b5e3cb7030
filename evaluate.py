"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from gumbeldore.cli import command, parts
from gumbeldore.cli.overrides import check_effect
from gumbeldore.cli.settings import EvaluationSettings
from gumbeldore.evaluation import results
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.loading import load_policy
from gumbeldore.evaluation.references import read_table, with_table
from gumbeldore.evaluation.solve import BenchmarkResult, MethodSummary, best_of, solve, summarise
from gumbeldore.interfaces import Benchmark, Problem
from gumbeldore.parallel.devices import resolve_device, resolve_rows, resolve_workers, trie_budget
from gumbeldore.parallel.pool import SearchPool, at_once
from gumbeldore.reporting import report
from gumbeldore.reporting.console import Terminal, hardware
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler.config import SearchConfig


def evaluate(cfg: DictConfig) -> dict[str, MethodSummary]:
    """Solve the instances with every method asked for; prints a table, writes results.json, .csv and report.html."""
    run = EvaluationSettings.of(cfg)
    device = resolve_device(run.device)
    precision = resolve_precision(run.precision, device)
    keep_freed_memory()
    problem, policy, _, path = loaded = load_policy(run.checkpoint, **OmegaConf.to_container(cfg.problem, resolve=True))
    parts.set_step_size(cfg.search, loaded)
    if HydraConfig.initialized():
        check_effect(cfg, HydraConfig.get().overrides.task)
    parts.join_cluster(cfg, problem, policy)
    cfg.solver.workers = resolve_workers(cfg.solver.workers, torch.device("cpu"), 1, key="solver.workers")
    methods = parts.build_methods(cfg)
    for method in methods.values():
        if not isinstance(method, SearchConfig):
            method.check(problem.name)
    benchmarks = instances_for(problem, run)
    out_dir = new_directory(run.out_dir)

    searches = [method for method in methods.values() if isinstance(method, SearchConfig)]
    workers = resolve_workers(run.workers, device, run.worker_threads)
    search_batch_rows = resolve_rows(run.search_batch_rows, device)
    budget = trie_budget(str(device))
    most = max((full_chunks(problem, policy, benchmarks, x, search_batch_rows, budget) for x in searches), default=0)
    if run.workers == "auto" and most <= 1:
        workers = 0  # nothing to share out
    pool = SearchPool(problem, policy, workers, search_batch_rows, str(device), precision, run.worker_threads)
    where = f"{hardware(device)}, {precision}, {workers or 'no'} workers"
    about = {"checkpoint": str(path), "instances": run.instances, "hardware": where, "precision": precision}
    about |= {"seed": run.seed, "command": typed()}
    found: results.Results = {}
    with pool, Terminal() as terminal:
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        out_dir.mkdir(parents=True, exist_ok=True)  # now that nothing of the user's can be wrong any more
        for name, method in methods.items():
            with advancing(terminal, name, benchmarks) as advance:
                name, solved = run_method(name, method, problem, pool, benchmarks, run.seed, advance)
            found[name] = solved
            if short := sum(part.cut_short for part in solved):
                terminal.say(f"{name}: for want of memory {short} instances were searched for less than the time limit")
            results.write_json(out_dir, found, benchmarks, problem, about)  # after each: a later one may not finish
            results.write_csv(out_dir, found, benchmarks, problem)
        details = results.write_details(out_dir, found, benchmarks, problem)
        solutions = results.write_solutions(out_dir, found, benchmarks, problem)
        report.write(out_dir, found, benchmarks, problem, about)
        show(terminal, found, benchmarks, problem, run.instances, where)
        names = ["report.html", "results.json", "results.csv", details, solutions]
        terminal.say("written: " + ", ".join(f"{out_dir}/{name}" for name in names if name))
    return {name: summarise(solved, benchmarks) for name, solved in found.items()}


def full_chunks(
    problem: Problem,
    policy: Any,
    benchmarks: list[Benchmark],
    search: SearchConfig,
    search_batch_rows: int,
    budget: int,
) -> float:
    """How many times as much all instances are as what is searched together at most."""
    return sum(
        len(x.names) / at_once(problem, policy, x.instances, search, search_batch_rows, budget) for x in benchmarks
    )


def instances_for(problem: Problem, run: EvaluationSettings) -> list[Benchmark]:
    """What is asked for. Raises ValueError that says, too, which problem the policy is for: one often mixes them up."""
    try:
        return problem.load(run.instances, run.num_instances)
    except ValueError as error:
        raise ValueError(f"{error} (the policy of {run.checkpoint} is for {problem.name})") from None


def add_references(
    cfg: DictConfig, problem: Problem, benchmarks: list[Benchmark], terminal: Terminal
) -> list[Benchmark]:
    """The benchmarks with the references asked for: of the user's table, or a solver's where there are none."""
    if cfg.references is None:
        return benchmarks
    if cfg.references != "solver":
        return with_table(benchmarks, read_table(Path(cfg.references).expanduser()), cfg.references)
    from problems.solvers import Solver, with_references

    solver = Solver(cfg.solver.time_limit, cfg.solver.workers, cfg.seed)
    with advancing(terminal, "references", benchmarks) as advance:
        return [with_references(problem.name, benchmark, solver, advance) for benchmark in benchmarks]


def run_method(
    name: str,
    method: SearchConfig | Baseline,
    problem: Problem,
    pool: SearchPool,
    benchmarks: list[Benchmark],
    seed: int,
    advance: Callable[[int], None],
) -> tuple[str, list[BenchmarkResult]]:
    """The solutions of one method for each benchmark, and the name to show."""
    if isinstance(method, SearchConfig):
        return name, [solve(pool, benchmark, method, seed, advance) for benchmark in benchmarks]
    return run_baseline(name, method, problem, benchmarks, advance)


def run_baseline(
    name: str, method: Baseline, problem: Problem, benchmarks: list[Benchmark], advance: Callable[[int], None]
) -> tuple[str, list[BenchmarkResult]]:
    """The solutions of the way that is the best on all benchmarks together; it is named where there are several."""
    found: dict[str, list[BenchmarkResult]] = {}
    for benchmark in benchmarks:
        for way, (actions, seconds) in method.solve(problem.name, benchmark, advance).items():
            costs = benchmark.true_cost(torch.arange(len(actions)), actions)
            found.setdefault(way, []).append(BenchmarkResult.without_policy(actions, costs, seconds))
    best = best_of(found, benchmarks)
    return name if len(found) == 1 else f"{name}: {best}", found[best]


@contextmanager
def advancing(terminal: Terminal, phase: str, benchmarks: list[Benchmark]) -> Iterator[Callable[[int], None]]:
    """A function to be called with the number of instances done since the last call."""
    count, done = sum(len(benchmark.names) for benchmark in benchmarks), 0
    terminal.progress(phase, 0, count)

    def advance(instances: int) -> None:
        nonlocal done
        done += instances
        terminal.progress(phase, done, count)

    yield advance


def new_directory(asked: str | None, file: str = "results.json") -> Path:
    """The folder of the results. Raises ValueError if it holds results already: `file`."""
    path = Path(asked or Path("evaluations", datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")))
    if path.exists() and not path.is_dir():
        raise ValueError(f"out_dir={path} is not a folder; choose another")
    if (path / file).exists():
        raise ValueError(f"out_dir={path} holds results already; choose another")
    return path


def typed() -> str:
    """The command as it was typed."""
    program, *words = sys.argv
    return shlex.join([*(["python"] if program.endswith(".py") else []), program, *words])


def show(
    terminal: Terminal,
    found: results.Results,
    benchmarks: list[Benchmark],
    problem: Problem,
    instances: str,
    where: str,
) -> None:
    """The table of methods, and one by size where there are several."""
    count = sum(len(benchmark.names) for benchmark in benchmarks)
    title = f"{instances}: {count} instance{'s' if count > 1 else ''}"
    terminal.table(
        title, *results.method_rows(found, benchmarks, problem), "\n".join([results.reference_note(benchmarks), where])
    )
    if len(benchmarks) > 1:
        terminal.table("by size", *results.size_rows(found, benchmarks, problem))
    for line in results.mean_lines(found, benchmarks):
        terminal.say(line)


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
