"""The best costs known of published routing instances, which are recognised by their content."""

from __future__ import annotations

import csv
import gzip
import io
from functools import cache
from typing import NamedTuple

import numpy as np
from torch import Tensor

from problems.common.fingerprint import fingerprint
from problems.common.sets import DATA
from problems.formats.matrices import EXPLICIT, layouts
from problems.formats.tsplib import CONVENTIONS, EXACT, Metric

FIXED_FLEETS = {"A", "B", "E", "F", "M", "P"}  # of CVRPLIB: solutions have exactly k routes, k in the name

Key = tuple[str, str]  # a fingerprint, and the format of the matrix whose numbers it stands for; "": of coordinates


class Published(NamedTuple):
    """A cost of the literature."""

    cost: float
    kind: str  # how good it is
    source: str
    metric: str  # a key of problems.formats.tsplib.METRICS or EXPLICIT; with other distances the cost does not compare


def of_tsplib(coords: np.ndarray, metric: Metric) -> Published | None:
    """The optimum of an instance of TSPLIB: coordinates [N, 2] in the order of their numbers, or a matrix."""
    return _first(_tsplib(), _keys(coords, metric))


def of_cvrplib(coords: np.ndarray, demands: np.ndarray, capacity: int, metric: Metric) -> Published | None:
    """The best cost known of an instance of CVRPLIB: coordinates [N+1, 2], or a matrix, and demands [N+1], the depot
    first.
    """
    keys = _keys(coords, metric, demands, capacity)
    return _first(_cvrplib(), keys) or _first(_xml100(), keys)


def with_published(
    costs: np.ndarray, kinds: list[str], published: list[Published | None]
) -> tuple[np.ndarray, list[str]]:
    """Costs [n] and kinds of instances in arrays, with the published ones where there is none (NaN or 0).

    Distances between coordinates in arrays are not rounded: a cost with rounded distances does not compare.
    """
    for i, each in enumerate(published):
        if each and each.metric in (EXPLICIT, *EXACT) and not costs[i] > 0:
            costs[i], kinds[i] = each.cost, f"{each.kind} ({each.source})"
    return costs, kinds


def _keys(coords: np.ndarray, metric: Metric, *loads: np.ndarray | int) -> list[Key]:
    """What an instance can be known by: its coordinates, or the numbers of its matrix as each format lists them.

    The same numbers are another matrix in another format.
    """
    listed = layouts(metric.numpy()) if isinstance(metric, Tensor) else [("", coords)]
    return [(fingerprint(numbers, *loads), form) for form, numbers in listed]


def _first(known: dict[Key, Published], keys: list[Key]) -> Published | None:
    return next((known[key] for key in keys if key in known), None)


@cache
def _tsplib() -> dict[Key, Published]:
    with open(DATA / "tsplib_optimal.csv", newline="") as file:
        return {
            _key(row): Published(float(row["optimal"]), "optimal", "TSPLIB", row["edge_weight_type"])
            for row in csv.DictReader(file)
        }


@cache
def _cvrplib() -> dict[Key, Published]:
    found: dict[Key, Published] = {}
    with open(DATA / "cvrplib_best_known.csv", newline="") as file:
        for row in csv.DictReader(file):
            kind = "best known for k routes" if row["family"] in FIXED_FLEETS else "best known"
            metric = CONVENTIONS.get(row["convention"], row["edge_weight_type"])
            each = Published(float(row["cost"]), kind, "CVRPLIB", metric)
            found[_key(row)] = min(each, found.get(_key(row), each))  # one is there for two numbers k
    return found


@cache
def _xml100() -> dict[Key, Published]:
    with gzip.open(DATA / "cvrplib_xml100_best_known.csv.gz") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    return {_key(row): Published(float(row["cost"]), "best known", "CVRPLIB", "EUC_2D") for row in rows}


def _key(row: dict[str, str]) -> Key:
    return row["fingerprint"], row.get("edge_weight_format", "")
