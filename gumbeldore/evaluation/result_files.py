"""What an evaluation leaves behind for programs: results.json, results.csv, the problem's table, solution files."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from gumbeldore.evaluation.solved_sets import claims_of, pairs, summarise, unsolved
from gumbeldore.evaluation.tables import Results, by_size, contradictions, further_numbers, reference_of, remarks
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem, size_name
from gumbeldore.runtime.files import write_table, write_text

LONGEST = 50  # letters of a file's name: file systems take 255 bytes, of which a letter can need four


def write_json(
    out_dir: Path, results: Results, instance_sets: list[InstanceSet], problem: Problem, about: dict
) -> None:
    """results.json: what was measured and how."""
    reference = reference_of(instance_sets)
    methods = {}
    for name, solved in results.items():
        means = {key: values.double().nanmean().item() for key, values in further_numbers(problem, solved).items()}
        values = {**summarise(solved, instance_sets)._asdict(), **means, "reference": reference}
        methods[name] = {key: None if value != value else value for key, value in values.items()}
        methods[name]["below_reference"] = contradictions(solved, instance_sets)
        missing = unsolved(solved, instance_sets)
        methods[name]["not_solved"] = [{"instance": instance, "reason": why} for instance, why in missing]
        methods[name]["claims"] = claims_of(solved, instance_sets)
        sizes = {
            size: summarise([solved[place] for place in places], [instance_sets[place] for place in places])
            for size, places in by_size(instance_sets, problem).items()
        }
        methods[name]["by_size"] = {size: found._asdict() for size, found in sizes.items() if found.num_instances}
    left_out = [{"file": file, "reason": why} for x in instance_sets for file, why in x.left_out.items()]
    warnings = [line for instance_set in instance_sets for line in instance_set.warnings]
    content = {"methods": methods, "num_left_out": len(left_out), "left_out": left_out, "warnings": warnings}
    content |= {"remarks": remarks(instance_sets, problem), **about}
    write_text(out_dir / "results.json", json.dumps(content, indent=2) + "\n")


def write_csv(out_dir: Path, results: Results, instance_sets: list[InstanceSet], problem: Problem) -> None:
    """results.csv: a line per method and instance, with its solution in the problem's own terms.

    Where a method has no solution, its numbers are empty.
    """
    further = list(further_numbers(problem, next(iter(results.values()))))
    header = ["method", "instance", "size", "cost", "reference", "gap", "kind", "solutions", *further, "solution"]
    rows: list[list] = [header]
    for name, solved in results.items():
        for part, instance_set in zip(solved, instance_sets, strict=True):
            numbers = [values.tolist() for values in further_numbers(problem, [part]).values()]
            gap, found, costs = instance_set.gaps(part.costs).tolist(), part.found.tolist(), part.costs.tolist()
            size = size_name(problem, instance_set.instances)
            for i, instance in enumerate(instance_set.names):
                reference = instance_set.references[i].item()
                known = [reference, gap[i], instance_set.kinds[i]] if reference == reference else ["", "", ""]
                more = [values[i] for values in numbers]
                if costs[i] != costs[i]:
                    known[1] = ""
                    rows.append([name, instance, size, "", *known, 0, *([""] * (len(more) + 1))])
                    continue
                solution = " ".join(map(str, problem.reports.solution(part.actions[i])))
                rows.append([name, instance, size, costs[i], *known, found[i], *more, solution])
    write_table(out_dir / "results.csv", rows)


def write_details(out_dir: Path, results: Results, instance_sets: list[InstanceSet], problem: Problem) -> str | None:
    """Write the problem's own table of all solutions, if it has one; returns the name of its file (`details`)."""
    table: list[list] = []
    written: str | None = None
    for name, solved in results.items():
        for part, instance_set in pairs(solved, instance_sets):
            for i, instance in enumerate(instance_set.names):
                details = problem.reports.details(instance_set.originals, i, part.actions[i])
                if details is None:
                    continue
                file, header, rows = details
                if written is None:
                    written = file
                    table.append(["method", "instance", *header])
                table += ([name, instance, *row] for row in rows)
    if written is not None:
        write_table(out_dir / written, table)
    return written


def write_solutions(out_dir: Path, results: Results, instance_sets: list[InstanceSet], problem: Problem) -> str | None:
    """Write solutions as files for other programs, where the problem has such files; returns their folder.

    The files are named after method and instance, in letters that are safe in file names.
    """
    written: set[Path] = set()
    for name, solved in results.items():
        for part, instance_set in pairs(solved, instance_sets):
            for i, instance in enumerate(instance_set.names):
                if not problem.reports.has_files(instance_set.originals, i):
                    continue
                cost = part.costs[i].item()
                file = problem.reports.solution_file(instance_set.originals, i, instance, part.actions[i], cost)
                if file is None:
                    continue
                suffix, text = file
                path = stem = out_dir / "solutions" / _file_name(name) / _file_name(instance)
                number = 1
                while path in written:  # two files of a folder may hold instances of the same name
                    number += 1
                    path = stem.with_name(f"{stem.name}-{number}")
                written.add(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path.with_name(path.name + suffix), text)
    return "solutions/" if written else None


def _file_name(name: str) -> str:
    """The name in letters that are safe in file names; a long one is cut, and told apart by a checksum."""
    safe = re.sub(r"[^\w.-]+", "_", name).strip("._") or "_"
    if len(safe) <= LONGEST:
        return safe
    return f"{safe[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
