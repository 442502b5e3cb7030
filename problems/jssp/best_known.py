"""The best makespans known of published JSSP instances, which are recognised by their content."""

from __future__ import annotations

import csv
import hashlib
from functools import cache
from pathlib import Path

import numpy as np

from problems.formats.job_shop import NOT_FIXED, JsspInstance

TABLE = Path(__file__).parents[1] / "data" / "jssp_best_known.csv"
DATE = "2026-08-19"  # of the table: sources differ, and open instances improve


def best_known(shop: JsspInstance) -> tuple[float, str]:
    """Cost and kind of the best solution known of an instance; else NaN and ""."""
    more = shop.release.any() or shop.machine_release.any() or shop.waits.any() or (shop.fixed > NOT_FIXED).any()
    known = None if more else _table().get(fingerprint(shop.times, shop.machines))
    if known is None:
        return float("nan"), ""
    lower, upper = known
    return float(upper), "optimal" if lower == upper else f"best known {DATE}"


def fingerprint(times: np.ndarray, machines: np.ndarray) -> str:
    """16 hex digits that stand for instances [.., J, O], int64 both: no name is needed, and none can mislead.

    The lengths of the jobs are part of it unless each job visits each machine once, where no other shape is possible.
    """
    there = machines >= 0
    digits = hashlib.sha256(np.ascontiguousarray(times[there], dtype="<i8").tobytes())
    digits.update(np.ascontiguousarray(machines[there], dtype="<i8").tobytes())
    if not (np.sort(machines, axis=-1) == np.arange(machines.shape[-1])).all():
        digits.update(there.sum(axis=-1).astype("<i8").tobytes())
    return digits.hexdigest()[:16]


@cache
def _table() -> dict[str, tuple[int, int]]:
    """Fingerprint -> lower bound and best makespan."""
    with open(TABLE, newline="") as file:
        return {row["fingerprint"]: (int(row["lower"]), int(row["upper"])) for row in csv.DictReader(file)}
