"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from gumbeldore.cli import command, parts
from gumbeldore.cli.evaluation import (
    Machine,
    advancing,
    decisive,
    goes_on,
    instances_for,
    new_directory,
    open_policy,
    say_notices,
    typed,
    without_idle_workers,
)
from gumbeldore.cli.settings import EvaluationSettings
from gumbeldore.evaluation import results
from gumbeldore.evaluation.baseline import Baseline, solve_baseline
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.references import read_table, with_table
from gumbeldore.evaluation.solve import MethodSummary, results_of, solve, summarise
from gumbeldore.interfaces import Benchmark, Problem, count_of
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.stopping import interruptible
from gumbeldore.sampler.config import SearchConfig

UNFINISHED = "unfinished"  # the folder of what an interrupted method has found


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
    out_dir = new_directory(run, "results.json")
    if run.workers == "auto":
        searches = [method for method in methods.values() if isinstance(method, SearchConfig)]
        machine = without_idle_workers(machine, loaded, benchmarks, searches)

    about: dict[str, Any] = {"checkpoint": str(path), "instances": run.instances, "hardware": str(machine)}
    about |= {"precision": machine.precision, "seed": run.seed, "command": typed()}
    manifest = decisive(cfg, machine, path, benchmarks)
    found: results.Results = {}
    with machine.pool(problem, policy, run.worker_threads) as pool, Terminal() as terminal, interruptible():
        say_notices(terminal, benchmarks)
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        report = Report(problem, about, terminal)
        with Kept(out_dir, manifest, run.resume) as kept:  # now that nothing of the user's can be wrong any more
            parts_of = {name: [kept.parts(name, place) for place in range(len(benchmarks))] for name in methods}
            try:
                for name, method in methods.items():
                    with advancing(terminal, name, benchmarks, sum(map(len, parts_of[name]))) as advance:
                        run_method(method, problem, pool, benchmarks, run.seed, parts_of[name], advance)
                    found |= results_of(name, parts_of[name], benchmarks)
                    report.write_tables(out_dir, found, benchmarks)  # after each: a later one may not finish
            except KeyboardInterrupt:
                report.write_finished(out_dir, parts_of, benchmarks)
                raise goes_on(kept.finished(), len(methods) * count_of(benchmarks), out_dir) from None
            shutil.rmtree(out_dir / UNFINISHED, ignore_errors=True)
            report.write(out_dir, found, benchmarks)
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
    method: SearchConfig | Baseline,
    problem: Problem,
    pool: SearchPool,
    benchmarks: list[Benchmark],
    seed: int,
    parts: list[Parts],
    advance: Callable[[int], None],
) -> None:
    """Add to the `parts` of each benchmark the solutions of a method for the instances that have none there."""
    for benchmark, found in zip(benchmarks, parts, strict=True):
        if isinstance(method, SearchConfig):
            solve(pool, benchmark, method, seed, advance, found)
        else:
            solve_baseline(method, problem, benchmark, advance, found)


class Report(NamedTuple):
    """Tables for the terminal, and the files of a folder."""

    problem: Problem
    about: dict[str, Any]  # the evaluation
    terminal: Terminal

    def write_tables(self, folder: Path, found: results.Results, benchmarks: list[Benchmark]) -> None:
        """results.json and results.csv."""
        folder.mkdir(exist_ok=True)
        results.write_json(folder, found, benchmarks, self.problem, self.about)
        results.write_csv(folder, found, benchmarks, self.problem)

    def write(self, folder: Path, found: results.Results, benchmarks: list[Benchmark]) -> None:
        """All files, and the tables on the terminal."""
        from gumbeldore.reporting import html_report  # imports matplotlib, for which `--help` need not wait

        for name, solved in found.items():
            if short := sum(part.cut_short for part in solved):
                rule = f"for want of memory {short} instances were searched for less than the time limit"
                self.terminal.say(f"{name}: {rule}")
        self.write_tables(folder, found, benchmarks)
        details = results.write_details(folder, found, benchmarks, self.problem)
        solutions = results.write_solutions(folder, found, benchmarks, self.problem)
        html_report.write(folder, found, benchmarks, self.problem, self.about)
        self.show(found, benchmarks)
        names = ["report.html", "results.json", "results.csv", details, solutions]
        self.terminal.say("written: " + ", ".join(f"{folder}/{name}" for name in names if name))

    def write_finished(self, out_dir: Path, parts: dict[str, list[Parts]], benchmarks: list[Benchmark]) -> None:
        """What an interrupted evaluation has found: with the methods that are finished, and apart from them the next.

        The latter with the instances that it has finished: in a folder below, or alone.
        """
        found: results.Results = {}
        count = count_of(benchmarks)
        for name, each in parts.items():
            if (done := sum(map(len, each))) == count:
                found |= results_of(name, each, benchmarks)
                continue
            if found:
                self.write(out_dir, found, benchmarks)
            if done:
                begun = [(part, x) for part, x in zip(each, benchmarks, strict=True) if len(part)]
                some = [benchmark.part(part.instances()) for part, benchmark in begun]
                self.terminal.say(f"{name}: {done} of {count} instances are finished")
                report = self._replace(about={**self.about, "unfinished": f"{done} of {count} instances"})
                folder = out_dir / UNFINISHED if found else out_dir
                report.write(folder, results_of(name, [part for part, _ in begun], some), some)
            return
        self.write(out_dir, found, benchmarks)

    def show(self, found: results.Results, benchmarks: list[Benchmark]) -> None:
        """The table of methods, and one by size where there are several."""
        count = count_of(benchmarks)
        title = f"{self.about['instances']}: {count} instance{'s' if count > 1 else ''}"
        note = "\n".join([results.reference_note(benchmarks), self.about["hardware"]])
        self.terminal.table(title, *results.method_rows(found, benchmarks, self.problem), note)
        if len(benchmarks) > 1:
            self.terminal.table("by size", *results.size_rows(found, benchmarks, self.problem))
        for line in results.mean_lines(found, benchmarks) + results.contradiction_lines(found, benchmarks):
            self.terminal.say(line)


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
