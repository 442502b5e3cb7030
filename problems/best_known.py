"""The best costs known of published routing instances, which are recognised by their content."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from problems.formats.matrices import layouts
from problems.formats.tsplib import Metric

DATA = Path(__file__).parent / "data"
METRIC = {"rounded": "EUC_2D", "exact": "EXACT_2D"}  # by the convention of CVRPLIB's costs
FIXED_FLEETS = {"A", "B", "E", "F", "M", "P"}  # of CVRPLIB: solutions have exactly k routes, k in the name


class Published(NamedTuple):
    """A cost of the literature."""

    cost: float
    kind: str  # how good it is
    source: str
    metric: str  # a key of problems.formats.tsplib.METRICS or EXPLICIT; with other distances the cost does not compare


def fingerprint(*arrays: np.ndarray | int) -> str:
    """16 hex digits that stand for numbers: no name is needed, and none can mislead."""
    digits = hashlib.sha256()
    for array in arrays:
        digits.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digits.hexdigest()[:16]


def of_tsplib(coords: np.ndarray, metric: Metric) -> Published | None:
    """The optimum of an instance of TSPLIB: coordinates [N, 2] in the order of their numbers, or a matrix."""
    return _first(_tsplib(), [fingerprint(numbers) for numbers in _numbers(coords, metric)])


def of_cvrplib(coords: np.ndarray, demands: np.ndarray, capacity: int, metric: Metric) -> Published | None:
    """The best cost known of an instance of CVRPLIB: coordinates [N+1, 2], or a matrix, and demands [N+1], the depot
    first.
    """
    keys = [fingerprint(numbers, demands, capacity) for numbers in _numbers(coords, metric)]
    return _first(_cvrplib(), keys) or _first(_xml100(), keys)


def _numbers(coords: np.ndarray, metric: Metric) -> list[np.ndarray]:
    """What instances are recognised by: their coordinates, or the numbers of their matrix, in any format."""
    return list(layouts(metric.numpy())) if isinstance(metric, Tensor) else [coords]


def _first(known: dict[str, Published], keys: list[str]) -> Published | None:
    return next((known[key] for key in keys if key in known), None)


@cache
def _tsplib() -> dict[str, Published]:
    with open(DATA / "tsplib_optimal.csv", newline="") as file:
        return {
            row["fingerprint"]: Published(float(row["optimal"]), "optimal", "TSPLIB", row["edge_weight_type"])
            for row in csv.DictReader(file)
        }


@cache
def _cvrplib() -> dict[str, Published]:
    found: dict[str, Published] = {}
    with open(DATA / "cvrplib_best_known.csv", newline="") as file:
        for row in csv.DictReader(file):
            kind = "best known for k routes" if row["family"] in FIXED_FLEETS else "best known"
            metric = METRIC.get(row["convention"], row["edge_weight_type"])
            each = Published(float(row["cost"]), kind, "CVRPLIB", metric)
            found[row["fingerprint"]] = min(each, found.get(row["fingerprint"], each))  # one is there for two numbers k
    return found


@cache
def _xml100() -> dict[str, Published]:
    with gzip.open(DATA / "cvrplib_xml100_best_known.csv.gz") as file:
        rows = list(csv.DictReader(io.TextIOWrapper(file)))
    return {row["fingerprint"]: Published(float(row["cost"]), "best known", "CVRPLIB", "EUC_2D") for row in rows}
