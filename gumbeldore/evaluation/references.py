"""References: those a user brings along, lower bounds in place of missing ones, and contradicted ones."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import torch
from torch import Tensor

from gumbeldore.benchmark import Benchmark
from gumbeldore.runtime.arrays import regular
from gumbeldore.runtime.files import as_cell

LOWER_BOUND = "lower bound"  # the kind of a reference
COLUMNS = ["name", "cost", "kind"]
UNBEATEN = re.compile(r"(?<!near[ -])\boptim(al|um)\b|lower bound|best[ -]known", re.IGNORECASE)  # kinds of references
MOST_NAMED = 5  # names without an instance in a warning
ROUNDING = 1e-5  # relative: of costs in float32, and of published ones with few digits


def read_table(path: Path) -> dict[str, tuple[float, str]]:
    """Cost and kind by instance name (as results.csv has it), from a `.csv` with columns name, cost and perhaps kind.

    Raises ValueError naming file, line and rule.
    """
    try:
        with open(regular(path), newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file, skipinitialspace=True)
            columns = rows.fieldnames or []
            if not {"name", "cost"} <= set(columns) <= set(COLUMNS):
                raise ValueError(f"{path}, line 1: the columns must be name, cost and, if wanted, kind; got {columns}")
            table: dict[str, tuple[float, str]] = {}
            for row in rows:
                where = f"{path}, line {rows.line_num}"
                if None in row or None in row.values():
                    raise ValueError(f"{where}: a row has as many values as there are columns, {len(columns)}")
                if (name := as_cell(row["name"])) in table:
                    raise ValueError(f"{where}: {row['name']} is given twice")
                table[name] = _cost(where, row["cost"]), row.get("kind") or path.name
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a text of comma-separated values: {error}") from None
    except OSError as error:
        raise ValueError(f"references={path}: {error.strerror}") from None
    return table


def with_table(benchmarks: list[Benchmark], table: dict[str, tuple[float, str]], source: str) -> list[Benchmark]:
    """Benchmarks with the table's references in place of their own. Raises ValueError if it names no instance."""
    names = {as_cell(name) for benchmark in benchmarks for name in benchmark.names}
    if not names & table.keys():
        raise ValueError(f"{source} names none of the instances; the first is {next(iter(benchmarks[0].names))}")
    warnings = []
    if unknown := sorted(table.keys() - names):
        named = ", ".join(unknown[:MOST_NAMED]) + (", ..." if len(unknown) > MOST_NAMED else "")
        warnings = [f"{source}: {len(unknown)} of {len(table)} names are of no instance here: {named}"]
    changed = []
    for benchmark in benchmarks:
        references, kinds, solutions = benchmark.references.clone(), list(benchmark.kinds), dict(benchmark.solutions)
        for place, name in enumerate(map(as_cell, benchmark.names)):
            if name in table:
                references[place], kinds[place] = table[name]
                solutions.pop(place, None)
        changed.append(benchmark._replace(references=references, kinds=kinds, solutions=solutions))
    changed[0] = changed[0]._replace(warnings=[*changed[0].warnings, *warnings])
    return changed


def with_lower_bounds(benchmark: Benchmark) -> Benchmark:
    """The benchmark with its lower bounds above 0 as references where it has none."""
    if benchmark.lower_bounds is None:
        return benchmark
    missing = benchmark.references.isnan() & (benchmark.lower_bounds > 0)
    references = torch.where(missing, benchmark.lower_bounds, benchmark.references)
    kinds = [LOWER_BOUND if new else kind for new, kind in zip(missing.tolist(), benchmark.kinds, strict=True)]
    return benchmark._replace(references=references, kinds=kinds)


def proven(benchmark: Benchmark, costs: list[Tensor]) -> Benchmark:
    """The benchmark with those lower bounds called optimal that a method reaches, given the costs [n] of each."""
    reached = torch.stack(costs).amin(dim=0) == benchmark.references
    kinds = [
        f"optimal ({LOWER_BOUND})" if kind == LOWER_BOUND and met else kind
        for kind, met in zip(benchmark.kinds, reached.tolist(), strict=True)
    ]
    return benchmark._replace(kinds=kinds)


def contradicted(costs: Tensor, benchmark: Benchmark) -> Tensor:
    """bool [n]: whether a solution of the costs [n] is cheaper than a reference said to be optimal, best or a bound.

    Then the reference is wrong, or belongs to other distances, or a better solution than the best known is found.
    """
    claims = torch.tensor([UNBEATEN.search(kind) is not None for kind in benchmark.kinds], dtype=torch.bool)
    references = benchmark.references
    whole = (costs == costs.round()) & (references == references.round())
    return claims & (costs < references - torch.where(whole, 0.0, ROUNDING * references.abs()))  # not of NaN


def _cost(where: str, word: str) -> float:
    try:
        cost = float(word)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost) or cost == 0:
        raise ValueError(f"{where}: a cost must be a number other than 0, got {word!r}")
    return cost
