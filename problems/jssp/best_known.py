"""The best makespans known of published job shops, which are recognised by their content."""

from __future__ import annotations

import csv
from functools import cache

from problems.common.sets import DATA

DATE = "2026-08-19"  # of the tables: sources differ, and open instances improve


@cache
def best_known(problem: str) -> dict[str, tuple[float, str]]:
    """Fingerprint -> makespan and its kind: OR-Tools' of the FJSP's SD sets, else the best known."""
    with open(DATA / f"{problem}_best_known.csv", newline="") as file:
        return {row["fingerprint"]: (float(row["upper"]), _kind(row)) for row in csv.DictReader(file)}


def _kind(row: dict[str, str]) -> str:
    if row.get("instance", "").startswith("SD"):
        return "OR-Tools, 1800 s"
    return "optimal" if row["lower"] == row["upper"] else f"best known {DATE}"
