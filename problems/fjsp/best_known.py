"""The best makespans known of published FJSP instances, which are recognised by their content."""

from __future__ import annotations

import csv
import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from problems.formats.fjs import FjspInstance

TABLE = Path(__file__).parents[1] / "data" / "fjsp_best_known.csv"
DATE = "2026-08-19"  # of the bounds in the table


def best_known(shop: FjspInstance) -> tuple[float, str]:
    """Cost and kind of the best solution known of an instance; else NaN and ""."""
    more = shop.release.any() or shop.machine_release.any() or shop.waits.any()
    known = None if more else _table().get(fingerprint(shop.times))
    return known or (float("nan"), "")


def fingerprint(times: np.ndarray) -> str:
    """16 hex digits that stand for instances of times int64 [.., J, O, M], whatever the numbers of their places are."""
    there = (times >= 0).any(axis=-1)
    digits = hashlib.sha256(np.ascontiguousarray(times[there], dtype="<i8").tobytes())
    digits.update(there.sum(axis=-1).astype("<i8").tobytes())
    return digits.hexdigest()[:16]


@cache
def _table() -> dict[str, tuple[float, str]]:
    """Fingerprint -> makespan and its kind: OR-Tools' of the SD sets, else the best known."""
    with open(TABLE, newline="") as file:
        return {row["fingerprint"]: (float(row["upper"]), _kind(row)) for row in csv.DictReader(file)}


def _kind(row: dict[str, str]) -> str:
    if row["instance"].startswith("SD"):
        return "OR-Tools, 1800 s"
    return "optimal" if row["lower"] == row["upper"] else f"best known {DATE}"
