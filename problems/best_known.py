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

DATA = Path(__file__).parent / "data"
METRIC = {"rounded": "EUC_2D", "exact": "EXACT_2D"}  # by the convention of CVRPLIB's costs
FIXED_FLEETS = {"A", "B", "E", "F", "M", "P"}  # of CVRPLIB: solutions have exactly k routes, k in the name


class Published(NamedTuple):
    """A cost of the literature."""

    cost: float
    kind: str  # how good it is
    source: str
    metric: str  # a key of problems.formats.tsplib.METRICS; with other distances the cost does not compare


def fingerprint(*arrays: np.ndarray | int) -> str:
    """16 hex digits that stand for numbers: no name is needed, and none can mislead."""
    digits = hashlib.sha256()
    for array in arrays:
        digits.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digits.hexdigest()[:16]


def of_tsplib(coords: np.ndarray) -> Published | None:
    """The optimum of an instance of TSPLIB: coordinates [N, 2] in the order of their numbers."""
    return _tsplib().get(fingerprint(coords))


def of_cvrplib(coords: np.ndarray, demands: np.ndarray, capacity: int) -> Published | None:
    """The best cost known of an instance of CVRPLIB: coordinates [N+1, 2] and demands [N+1], the depot first."""
    key = fingerprint(coords, demands, capacity)
    return _cvrplib().get(key) or _xml100().get(key)


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
