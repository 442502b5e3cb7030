"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

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
from gumbeldore.evaluation.references import read_table, with_table
from gumbeldore.evaluation.starts import Starts, StartSearch
from gumbeldore.interfaces import Benchmark, Problem, count_of
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.stopping import interruptible
from gumbeldore.sampler.config import SearchConfig

UNFINISHED = "unfinished"  # the folder of what an interrupted method has found


def evaluate(cfg: DictConfig) -> dict[str, MethodSummary]:
    """Solve the instances with every method asked for; prints a table, writes results.json, .csv and report.html."""
    run = EvaluationSettings.of(cfg)
    choices = open_policies(cfg, run)
    machine = Machine.of(run)
    tasks = tasks_of(cfg, choices, machine)
    problem, methods = tasks[0].loaded.problem, list(tasks[0].methods)
    benchmarks = [benchmark for choice in choices for benchmark in choice.benchmarks]
    out_dir = new_directory(run, "results.json")
    searched = tasks[0].start and count_of(benchmarks) > 1  # starts are searched one by one
    if run.workers == "auto" and not searched:
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
        say_notices(terminal, benchmarks)
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        report = Report(problem, about, terminal)
        with Kept(out_dir, manifest, run.resume) as kept:  # now that nothing of the user's can be wrong any more
            parts_of = {name: [kept.parts(name, place) for place in range(len(benchmarks))] for name in methods}
            try:
                for task in tasks:
                    with machine.pool(*task.loaded[:2], run.worker_threads) as pool:
                        for name, method in task.methods.items():
                            with advancing(terminal, name, benchmarks, sum(map(len, parts_of[name]))) as advance:
                                mine = benchmarks[task.places], run.seed, parts_of[name][task.places], advance
                                start = task.start if name == "solver" else None
                                run_method(method, task.loaded.problem, pool, *mine, start)
                            if task is tasks[-1]:  # every instance has a solution
                                found |= results_of(name, parts_of[name], benchmarks)
                                report.write_tables(out_dir, found, benchmarks)  # a later method may not finish
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
    start: StartSearch | None,
) -> None:
    """Add to the `parts` of each benchmark the solutions of a method for the instances that have none there.

    Arguments:
        start: how the policy searches for the solutions that the method, a solver, starts from; None: it has none
    """
    pairs = list(zip(benchmarks, parts, strict=True))
    if start:  # the longest searches first: if one of them leaves the solver no time, nothing else is lost
        pairs.sort(key=lambda pair: -problem.horizon(pair[0].instances))
    for benchmark, found in pairs:
        if isinstance(method, SearchConfig):
            solve_benchmark(pool, benchmark, method, seed, advance, found)
        else:
            starts = Starts(pool, benchmark, start, seed) if start else None
            solve_baseline(method, problem, benchmark, advance, found, starts)


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
        remarks = results.remarks(benchmarks, self.problem)
        note = "\n".join([results.reference_note(benchmarks), *remarks, self.about["hardware"]])
        self.terminal.table(title, *results.method_rows(found, benchmarks, self.problem), note)
        if len(benchmarks) > 1:
            self.terminal.table("by size", *results.size_rows(found, benchmarks, self.problem))
        for line in results.mean_lines(found, benchmarks) + results.contradiction_lines(found, benchmarks):
            self.terminal.say(line)


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
