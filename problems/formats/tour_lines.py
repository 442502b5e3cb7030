"""Sets of TSP instances with a tour each, as papers on neural solvers since Vinyals et al. [2015] share them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from problems.formats.sections import LARGEST_COORDINATE, coordinate, node_id
from problems.formats.text import error, lines, stem
from problems.formats.tsplib import UNROUNDED

MARK = "output"


class TourInstance(NamedTuple):
    name: str
    coords: np.ndarray  # [N, 2] float64
    metric: str  # distances are not rounded
    tour: list[int]  # a permutation of 0..N-1, in the order of the visit


def read_tour_lines(path: str | Path) -> list[TourInstance] | None:
    """The instances in a file of a line each, `x y x y ... output 1 5 2 ... 1`; None for another format.

    The tour visits each node once, counted from 1, and may return to its first one. Distances are not rounded. Raises
    ValueError with file, line and rule for other lines.
    """
    path = Path(path)
    rows = lines(path)
    if MARK not in rows[0][1].split() or ":" in rows[0][1]:
        return None
    name = stem(path)
    return [
        TourInstance(f"{name}/{place}" if len(rows) > 1 else name, *_instance(path, line, text))
        for place, (line, text) in enumerate(rows, start=1)
    ]


def _instance(path: Path, line: int, text: str) -> tuple[np.ndarray, str, list[int]]:
    """Coordinates, metric and tour of one line."""
    numbers, mark, nodes = text.partition(MARK)
    words = numbers.split()
    count = len(words) // 2
    if not mark or len(words) % 2 or count < 3:
        rule = f"a line is `x y x y ... {MARK} tour` with 3 nodes at least"
        raise error(path, line, f"{rule}, got {len(words)} numbers{f' before {MARK}' if mark else ''}")
    tour = [node_id(path, line, word, count) for word in nodes.split()]
    if len(tour) == count + 1 and tour[0] == tour[-1]:
        tour.pop()
    if len(tour) != count or len(set(tour)) != count:
        raise error(path, line, f"the tour must visit each of the {count} nodes once and return to the first one")
    return _coordinates(path, line, words).reshape(count, 2), UNROUNDED, tour


def _coordinates(path: Path, line: int, words: list[str]) -> np.ndarray:
    try:
        values = np.array(words, dtype=np.float64)
        if (np.abs(values) <= LARGEST_COORDINATE).all() and not any("_" in word for word in words):
            return values
    except ValueError:
        pass
    return np.array([coordinate(path, line, word) for word in words])  # names what is wrong
