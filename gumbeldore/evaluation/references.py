"""References: those a user brings along, lower bounds in place of missing ones, and contradicted ones."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import torch
from torch import Tensor

from gumbeldore.evaluation.parts import SolvedSet
from gumbeldore.instance_set import InstanceSet
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
            rows.fieldnames = columns = [column.strip() for column in rows.fieldnames or []]
            if not {"name", "cost"} <= set(columns) <= set(COLUMNS):
                raise ValueError(f"{path}, line 1: the columns must be name, cost and, if wanted, kind; got {columns}")
            table: dict[str, tuple[float, str]] = {}
            for row in rows:
                where = f"{path}, line {rows.line_num}"
                if None in row or None in row.values():
                    raise ValueError(f"{where}: a row has as many values as there are columns, {len(columns)}")
                if (name := _key(row["name"])) in table:
                    raise ValueError(f"{where}: {row['name']} is given twice")
                table[name] = _cost(where, row["cost"]), (row.get("kind") or "").strip() or path.name
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a text of comma-separated values: {error}") from None
    except OSError as error:
        raise ValueError(f"references={path}: {error.strerror}; give `solver` or the path of a .csv") from None
    return table


def with_table(instance_sets: list[InstanceSet], table: dict[str, tuple[float, str]], source: str) -> list[InstanceSet]:
    """The sets with the table's references in place of their own. Raises ValueError if it names no instance."""
    names = {_key(name) for instance_set in instance_sets for name in instance_set.names}
    if not names & table.keys():
        raise ValueError(f"{source} names none of the instances; the first is {next(iter(instance_sets[0].names))}")
    warnings = []
    if unknown := sorted(table.keys() - names):
        named = ", ".join(unknown[:MOST_NAMED]) + (", ..." if len(unknown) > MOST_NAMED else "")
        warnings = [f"{source}: {len(unknown)} of {len(table)} names are of no instance here: {named}"]
    changed = []
    for instance_set in instance_sets:
        references, kinds = instance_set.references.clone(), list(instance_set.kinds)
        solutions = dict(instance_set.solutions)
        for place, name in enumerate(map(_key, instance_set.names)):
            if name in table:
                if table[name][0] == 0 and not instance_set.pooled:
                    raise ValueError(f"{source}: the cost of {name} must be a number other than 0")
                references[place], kinds[place] = table[name]
                solutions.pop(place, None)
        changed.append(instance_set._replace(references=references, kinds=kinds, solutions=solutions))
    changed[0] = changed[0]._replace(warnings=[*changed[0].warnings, *warnings])
    return changed


def with_lower_bounds(instance_set: InstanceSet) -> InstanceSet:
    """The instance set with its lower bounds above 0 as references where it has none."""
    if instance_set.lower_bounds is None:
        return instance_set
    missing = instance_set.references.isnan() & (instance_set.lower_bounds > 0)
    references = torch.where(missing, instance_set.lower_bounds, instance_set.references)
    kinds = [LOWER_BOUND if new else kind for new, kind in zip(missing.tolist(), instance_set.kinds, strict=True)]
    return instance_set._replace(references=references, kinds=kinds)


def proven(instance_set: InstanceSet, solved: list[SolvedSet]) -> InstanceSet:
    """The instance set with what methods have proved of the instances that have no better reference than a bound.

    The bound of a solver, if it is not below ours, takes its place. A bound that a method reaches is called optimal.
    """
    references, kinds = instance_set.references.clone(), list(instance_set.kinds)
    unknown = torch.tensor([kind in ("", LOWER_BOUND) for kind in kinds], dtype=torch.bool)
    for each in solved:
        if each.bounds is None or each.claims is None:
            continue
        usable = (each.bounds > 0) | (each.bounds == 0) & instance_set.pooled
        better = unknown & usable & ~(each.bounds < references)  # nor is it below NaN
        references = each.bounds.where(better, references)
        for i in better.nonzero().flatten().tolist():
            kinds[i] = each.claims[i] if UNBEATEN.search(each.claims[i]) else f"{LOWER_BOUND}, {each.claims[i]}"
    reached = torch.stack([each.costs.nan_to_num(nan=math.inf) for each in solved]).amin(dim=0) == references
    kinds = [
        f"optimal ({kind})" if kind.startswith(LOWER_BOUND) and met else kind
        for kind, met in zip(kinds, reached.tolist(), strict=True)
    ]
    return instance_set._replace(references=references, kinds=kinds)


def contradicted(costs: Tensor, instance_set: InstanceSet) -> Tensor:
    """bool [n]: whether a solution of the costs [n] is cheaper than a reference said to be optimal, best or a bound.

    Then the reference is wrong, or belongs to other distances, or a better solution than the best known is found.
    """
    claims = torch.tensor([UNBEATEN.search(kind) is not None for kind in instance_set.kinds], dtype=torch.bool)
    references = instance_set.references
    whole = (costs == costs.round()) & (references == references.round())
    return claims & (costs < references - torch.where(whole, 0.0, ROUNDING * references.abs()))  # not of NaN


def _key(name: str) -> str:
    """What a table and an instance are compared by: the name as results.csv has it, without blanks around it."""
    return as_cell(name).strip()


def _cost(where: str, word: str) -> float:
    try:
        cost = float(word)
    except ValueError:
        cost = math.nan
    if not math.isfinite(cost):
        raise ValueError(f"{where}: a cost must be a number, got {word!r}")
    return cost
