"""What an evaluation shows and writes: tables on the terminal, and the files of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from gumbeldore.benchmark import Benchmark, count_of
from gumbeldore.evaluation import results
from gumbeldore.evaluation.benchmarks import results_of
from gumbeldore.evaluation.parts import Parts
from gumbeldore.interfaces import Problem
from gumbeldore.reporting.console import Terminal

UNFINISHED = "unfinished"  # the folder of what an interrupted method has found


class EvaluationReport(NamedTuple):
    """Tables for the terminal, and the files of a folder."""

    problem: Problem
    about: dict[str, Any]  # the evaluation
    terminal: Terminal

    def write_tables(self, folder: Path, found: results.Results, benchmarks: list[Benchmark]) -> list[str | None]:
        """results.json and results.csv, or a warning. Returns the names of what is written."""
        written: list[str | None] = []
        benchmarks = results.proven_by(found, benchmarks)
        with self.terminal.sparing(folder / "results.json"):
            folder.mkdir(exist_ok=True)
            results.write_json(folder, found, benchmarks, self.problem, self.about)
            written.append("results.json")
        with self.terminal.sparing(folder / "results.csv"):
            results.write_csv(folder, found, benchmarks, self.problem)
            written.append("results.csv")
        return written

    def write(self, folder: Path, found: results.Results, benchmarks: list[Benchmark]) -> None:
        """All files, and the tables on the terminal; a file that cannot be written costs no more than a warning."""
        for line in results.shortage_lines(found):
            self.terminal.say(line)
        written = self.write_tables(folder, found, benchmarks)
        benchmarks = results.proven_by(found, benchmarks)
        with self.terminal.sparing("the problem's own table"):
            written.append(results.write_details(folder, found, benchmarks, self.problem))
        with self.terminal.sparing(folder / "solutions"):
            written.append(results.write_solutions(folder, found, benchmarks, self.problem))
        with self.terminal.sparing(folder / "report.html"):
            from gumbeldore.reporting import html_report  # imports matplotlib, for which `--help` need not wait

            html_report.write(folder, found, benchmarks, self.problem, self.about)
            written.insert(0, "report.html")
        self.show(found, benchmarks)
        self.terminal.say("written: " + ", ".join(f"{folder}/{name}" for name in written if name))

    def write_finished(self, out_dir: Path, parts: dict[str, list[Parts]], benchmarks: list[Benchmark]) -> None:
        """What an evaluation has found, interrupted or not: the methods that are finished, the next in a folder below.

        The latter with the instances that it has finished. What was there of an earlier interruption is removed: of the
        heuristics, another may be the best of more instances.
        """
        shutil.rmtree(out_dir / UNFINISHED, ignore_errors=True)
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
                report.write(out_dir / UNFINISHED, results_of(name, [part for part, _ in begun], some), some)
            return
        self.write(out_dir, found, benchmarks)

    def show(self, found: results.Results, benchmarks: list[Benchmark]) -> None:
        """The table of methods, and one by size where there are several."""
        title = results.title_of(self.about["instances"], count_of(benchmarks))
        remarks = results.remarks(benchmarks, self.problem)
        note = "\n".join([results.reference_note(benchmarks), *remarks, self.about["hardware"]])
        self.terminal.table(title, *results.method_rows(found, benchmarks, self.problem), note)
        if len(benchmarks) > 1:
            self.terminal.table("by size", *results.size_rows(found, benchmarks, self.problem))
        for line in results.mean_lines(found, benchmarks) + results.contradiction_lines(found, benchmarks):
            self.terminal.say(line)
