"""Generalisation of a policy: gaps by size and family, greedily and in a time limit, beside a heuristic and a solver.

`folder` is what evaluate.py takes as instances, or several of it with commas between them; all need references.
The policy decides greedily, and the heuristic makes a solution; then `method`, which is one with a time limit, and the
solver, on one core, have `seconds` for each instance. `words` are more settings of evaluate.py, those of `search` for
`method` alone. `out` keeps the evaluations: what was interrupted goes on.

The family of an instance is the letters that its name begins with (ta01, A-n32-k5), behind the last slash. Its size is
the number of nodes, customers or operations.
"""

from __future__ import annotations

import bisect
import csv
import itertools
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import ROOT
from gumbeldore.reporting.console import Terminal

DEFAULTS = {"checkpoint": "", "folder": "", "seconds": 10.0, "method": "gumbeldore", "words": ""} | {
    "out": "runs/generalisation"
}
ENDS = (20, 50, 100, 200, 500, 1000, 2000)  # sizes, each the largest of its class
IN_TIME = ("search.", "search=")  # words that greedy and heuristic would refuse
ORDER = {"greedy": 0, "heuristic": 1}  # of the columns
Row = dict[str, str]  # of results.csv


def main(checkpoint: str, folder: str, seconds: float, method: str, words: str, out: str) -> None:
    if not checkpoint or not folder:
        raise ValueError("generalisation needs checkpoint= and folder=")
    limits = f"search.time_limit={seconds} solver.time_limit={seconds} solver.workers=0"
    typed = words.split()
    parts = {  # the short one first: what is wrong with a folder is found before the long one has begun
        "at_once": ["method=[greedy,heuristic]", *(word for word in typed if not word.startswith(IN_TIME))],
        "in_time": [f"method=[{method},solver]", *limits.split(), *typed],
    }
    rows: list[Row] = []
    for (part, asked), (number, source) in itertools.product(parts.items(), enumerate(folder.split(","), 1)):
        command = ["evaluate.py", f"checkpoint={checkpoint}", f"instances={source}", *asked]
        rows += evaluated(command, Path(out, str(number), part))
    with Terminal() as terminal:
        notes = f"mean gaps; in {seconds:g} s: {method}, solver"
        terminal.table("by family", *table("Family", rows, family), notes)
        terminal.table("by size", *table("Size", rows, size_class), notes)


def evaluated(command: list[str], folder: Path) -> list[Row]:
    """The rows of an evaluation in `folder`, which is made, or completed."""
    command = [*command, f"out_dir={folder}", "resume=true"]
    print("python", *command, flush=True)
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
    with (ROOT / folder / "results.csv").open() as file:
        rows = [row | {"method": row["method"].partition(":")[0]} for row in csv.DictReader(file)]  # heuristic: savings
    if unknown := sorted({row["instance"] for row in rows if not row["gap"]}):
        raise ValueError(f"no reference, so no gap: {', '.join(unknown)}")
    return rows


def family(row: Row) -> str:
    letters = re.match(r"[^\W\d_]+", row["instance"].rpartition("/")[2])
    return letters[0] if letters else "other"


def size_class(row: Row) -> str:
    """From which size to which, with leading blanks, so that classes are sorted by size."""
    size = math.prod(map(int, re.findall(r"\d+", row["size"])))
    place = bisect.bisect_left(ENDS, size)
    return f"{(0, *ENDS)[place] + 1:4} to {(*ENDS, '')[place]}"


def table(title: str, rows: list[Row], group_of: Callable[[Row], str]) -> tuple[list[str], list[list[str]]]:
    """Header and lines: a line per group, with a mean gap per method."""
    methods = sorted(dict.fromkeys(row["method"] for row in rows), key=lambda method: ORDER.get(method, len(ORDER)))
    gaps: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        of_group = gaps.setdefault(group_of(row), {method: [] for method in methods})
        of_group[row["method"]].append(float(row["gap"]))
    lines = []
    for group, found in sorted(gaps.items()):
        count = len(found[methods[0]])
        lines.append([group, str(count), *(f"{statistics.mean(each):.2%}" for each in found.values())])
    return [title, "instances", *methods], lines
