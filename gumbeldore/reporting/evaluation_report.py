"""What an evaluation shows and writes: tables on the terminal, and the files of a folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from gumbeldore.evaluation import result_files, tables
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.solved_sets import results_of
from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.interfaces import Problem
from gumbeldore.reporting.console import Terminal

UNFINISHED = "unfinished"  # the folder of what an interrupted method has found


class EvaluationReport(NamedTuple):
    """Tables for the terminal, and the files of a folder."""

    problem: Problem
    about: dict[str, Any]  # the evaluation
    terminal: Terminal

    def write_tables(self, folder: Path, found: tables.Results, instance_sets: list[InstanceSet]) -> list[str | None]:
        """results.json and results.csv, or a warning. Returns the names of what is written."""
        written: list[str | None] = []
        instance_sets = tables.proven_by(found, instance_sets)
        with self.terminal.sparing(folder / "results.json"):
            folder.mkdir(exist_ok=True)
            result_files.write_json(folder, found, instance_sets, self.problem, self.about)
            written.append("results.json")
        with self.terminal.sparing(folder / "results.csv"):
            result_files.write_csv(folder, found, instance_sets, self.problem)
            written.append("results.csv")
        return written

    def write(self, folder: Path, found: tables.Results, instance_sets: list[InstanceSet]) -> None:
        """All files, and the tables on the terminal; a file that cannot be written costs no more than a warning."""
        for line in tables.shortage_lines(found):
            self.terminal.say(line)
        written = self.write_tables(folder, found, instance_sets)
        instance_sets = tables.proven_by(found, instance_sets)
        details = None
        with self.terminal.sparing("the problem's own table"):
            details = result_files.write_details(folder, found, instance_sets, self.problem)
            written.append(details)
        with self.terminal.sparing(folder / "solutions"):
            written.append(result_files.write_solutions(folder, found, instance_sets, self.problem))
        with self.terminal.sparing(folder / "report.html"):
            from gumbeldore.reporting import html_report  # imports matplotlib, for which `--help` need not wait

            html_report.write(folder, found, instance_sets, self.problem, self.about, details)
            written.insert(0, "report.html")
        self.show(found, instance_sets)
        self.terminal.say("written: " + ", ".join(f"{folder}/{name}" for name in written if name))

    def write_finished(self, out_dir: Path, parts: dict[str, list[Parts]], instance_sets: list[InstanceSet]) -> None:
        """What an evaluation has found, interrupted or not: the methods that are finished, the next in a folder below.

        The latter with the instances that it has finished. What was there of an earlier interruption is removed: of the
        heuristics, another may be the best of more instances.
        """
        shutil.rmtree(out_dir / UNFINISHED, ignore_errors=True)
        found: tables.Results = {}
        count = count_of(instance_sets)
        for name, each in parts.items():
            if (done := sum(map(len, each))) == count:
                found |= results_of(name, each, instance_sets)
                continue
            if found:
                self.write(out_dir, found, instance_sets)
            if done:
                begun = [(part, x) for part, x in zip(each, instance_sets, strict=True) if len(part)]
                some = [instance_set.part(part.instances()) for part, instance_set in begun]
                self.terminal.say(f"{name}: {done} of {count} instances are finished")
                report = self._replace(about={**self.about, "unfinished": f"{done} of {count} instances"})
                report.write(out_dir / UNFINISHED, results_of(name, [part for part, _ in begun], some), some)
            return
        self.write(out_dir, found, instance_sets)

    def show(self, found: tables.Results, instance_sets: list[InstanceSet]) -> None:
        """The table of methods, and one by size where there are several."""
        title = tables.title_of(self.about["instances"], count_of(instance_sets))
        remarks = tables.remarks(instance_sets, self.problem)
        objective = [f"objective: {self.about['objective']}"] if "objective" in self.about else []
        note = "\n".join([*objective, tables.reference_note(instance_sets), *remarks, self.about["hardware"]])
        self.terminal.table(title, *tables.method_rows(found, instance_sets, self.problem), note)
        if len(instance_sets) > 1:
            self.terminal.table("by size", *tables.size_rows(found, instance_sets, self.problem))
        lines = tables.mean_lines(found, instance_sets) + tables.reached_lines(found, instance_sets)
        lines += tables.claim_lines(found, instance_sets) + tables.unsolved_lines(found, instance_sets)
        for line in lines + tables.contradiction_lines(found, instance_sets):
            self.terminal.say(line)
