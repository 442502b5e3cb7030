"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gumbeldore.cli import command, parts
from gumbeldore.cli.evaluation import (
    Machine,
    advancing,
    instances_for,
    new_directory,
    open_policy,
    typed,
    without_idle_workers,
)
from gumbeldore.cli.settings import EvaluationSettings
from gumbeldore.evaluation import results
from gumbeldore.evaluation.baseline import Baseline, solve_baseline
from gumbeldore.evaluation.references import read_table, with_table
from gumbeldore.evaluation.solve import BenchmarkResult, MethodSummary, solve, summarise
from gumbeldore.interfaces import Benchmark, Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting import html_report
from gumbeldore.reporting.console import Terminal
from gumbeldore.sampler.config import SearchConfig


def evaluate(cfg: DictConfig) -> dict[str, MethodSummary]:
    """Solve the instances with every method asked for; prints a table, writes results.json, .csv and report.html."""
    run = EvaluationSettings.of(cfg)
    problem, policy, _, path = loaded = open_policy(cfg, run)
    machine = Machine.of(run)
    methods = parts.build_methods(cfg)
    for method in methods.values():
        if not isinstance(method, SearchConfig):
            method.check(problem.name)
    benchmarks = instances_for(problem, run)
    out_dir = new_directory(run.out_dir, "results.json")
    if run.workers == "auto":
        searches = [method for method in methods.values() if isinstance(method, SearchConfig)]
        machine = without_idle_workers(machine, loaded, benchmarks, searches)

    about: dict[str, Any] = {"checkpoint": str(path), "instances": run.instances, "hardware": str(machine)}
    about |= {"precision": machine.precision, "seed": run.seed, "command": typed()}
    found: results.Results = {}
    with machine.pool(problem, policy, run.worker_threads) as pool, Terminal() as terminal:
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
        html_report.write(out_dir, found, benchmarks, problem, about)
        show(terminal, found, benchmarks, problem, run.instances, str(machine))
        names = ["report.html", "results.json", "results.csv", details, solutions]
        terminal.say("written: " + ", ".join(f"{out_dir}/{name}" for name in names if name))
    return {name: summarise(solved, benchmarks) for name, solved in found.items()}


def add_references(
    cfg: DictConfig, problem: Problem, benchmarks: list[Benchmark], terminal: Terminal
) -> list[Benchmark]:
    """The benchmarks with the references asked for: of the user's table, or a solver's where there are none."""
    if cfg.references is None:
        return benchmarks
    if cfg.references != "solver":
        return with_table(benchmarks, read_table(Path(cfg.references)), cfg.references)
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
    return solve_baseline(name, method, problem, benchmarks, advance)


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
