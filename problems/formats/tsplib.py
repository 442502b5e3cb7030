"""Reading TSPLIB95 files of the symmetric TSP, and tour lengths under its roundings [Reinelt 1995]."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from problems.formats.text import error, lines, number, short

LARGEST_COORDINATE = 1e12  # beyond it the rounding of an edge to a whole number would lose digits in float64


class TsplibInstance(NamedTuple):
    name: str
    coords: np.ndarray  # [N, 2] float64, as in the file
    metric: str  # its EDGE_WEIGHT_TYPE


class _Content(NamedTuple):
    header: dict[str, tuple[int, str]]  # keyword -> line number, value
    rows: list[tuple[int, list[str]]]  # line number and words of each line of the data section


def read_tsplib(path: str | Path) -> TsplibInstance:
    """The instance in a file of TYPE TSP whose edges follow from a NODE_COORD_SECTION.

    Raises ValueError with file, line and rule for everything else, malformed files included.
    """
    path = Path(path)
    supported = [metric for metric in METRICS if metric != "EUCLIDEAN"]
    header, rows = _read(path, "NODE_COORD_SECTION", {"TYPE": ["TSP"], "EDGE_WEIGHT_TYPE": supported})
    num_nodes = _dimension(path, header)
    if num_nodes is None:
        raise error(path, None, "the header lacks DIMENSION")
    if num_nodes != len(rows):
        rule = f"DIMENSION is {num_nodes}, but NODE_COORD_SECTION has {len(rows)} nodes"
        raise error(path, header["DIMENSION"][0], rule)
    if num_nodes < 3:
        raise error(path, header["DIMENSION"][0], f"a tour needs at least 3 nodes, DIMENSION is {num_nodes}")

    coords = np.full((num_nodes, 2), np.nan)
    for line, words in rows:
        if len(words) != 3:
            raise error(path, line, f"a node is three numbers `id x y`, got {len(words)}: {short(' '.join(words))}")
        node = _node(path, line, words[0], num_nodes)
        if not np.isnan(coords[node, 0]):
            raise error(path, line, f"node {node + 1} is given twice")
        coords[node] = [_coordinate(path, line, word) for word in words[1:]]
    name = header.get("NAME", (0, ""))[1].removesuffix(".tsp") or path.stem
    return TsplibInstance(name, coords, _first_word(header["EDGE_WEIGHT_TYPE"][1]))


def read_tour(path: str | Path) -> list[int]:
    """The tour in a TSPLIB file of TYPE TOUR: a permutation of 0..N-1, in the order of the visit."""
    path = Path(path)
    header, rows = _read(path, "TOUR_SECTION", {"TYPE": ["TOUR"]})
    words = [(line, word) for line, row in rows for word in row]
    if words and words[-1][1] == "-1":  # the end mark, which some files leave out
        words.pop()
    num_nodes = _dimension(path, header)  # optional here: some tours of TSPLIB itself lack it
    if num_nodes is not None and num_nodes != len(words):
        rule = f"DIMENSION is {num_nodes}, but TOUR_SECTION has {len(words)} nodes"
        raise error(path, header["DIMENSION"][0], rule)

    tour: dict[int, None] = {}  # an ordered set
    for line, word in words:
        node = _node(path, line, word, len(words))
        if node in tour:
            raise error(path, line, f"node {node + 1} is visited twice")
        tour[node] = None
    if not tour:
        raise error(path, None, "TOUR_SECTION has no nodes")
    return list(tour)


def edge_lengths(a: Tensor, b: Tensor, metric: str) -> Tensor:
    """Lengths [...] float64 of the edges between the points a and b [..., 2] float64, rounded as `metric` demands."""
    if metric not in METRICS:
        raise ValueError(f"the metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if a.dtype != torch.float64 or b.dtype != torch.float64:
        raise ValueError(f"rounded edge lengths need float64 points, got {a.dtype} and {b.dtype}")
    return METRICS[metric](a, b)


def tour_lengths(coords: Tensor, tours: Tensor, metric: str) -> Tensor:
    """Lengths [m] float64 of closed tours.

    Arguments:
        coords: [N, 2] of one instance or [m, N, 2] of one per tour, float64, in the unit of the file.
        tours: [m, N] int64 permutations of 0..N-1.
        metric: a key of METRICS.
    """
    points = coords.expand(len(tours), -1, -1).gather(1, tours[..., None].expand(-1, -1, 2))  # [m, N, 2]
    return edge_lengths(points, points.roll(-1, dims=1), metric).sum(dim=1)


def _euclidean(a: Tensor, b: Tensor) -> Tensor:
    delta = a - b
    return (delta * delta).sum(dim=-1).sqrt()  # exact for perfect squares, which CEIL_2D must not round up


def _nint(x: Tensor) -> Tensor:
    return (x + 0.5).floor()  # halves go up; torch.round would send them to the even neighbour


def _pseudo_euclidean(a: Tensor, b: Tensor) -> Tensor:
    """ATT: a distance over sqrt(10), rounded to the nearest whole number and up if that is smaller."""
    delta = a - b
    length = ((delta * delta).sum(dim=-1) / 10.0).sqrt()
    nearest = _nint(length)
    return torch.where(nearest < length, nearest + 1.0, nearest)


def _geographical(a: Tensor, b: Tensor) -> Tensor:
    """GEO: whole kilometres on the globe of TSPLIB, with its own pi and radius; points are (latitude, longitude)."""

    def radians(x: Tensor) -> Tensor:  # DDD.MM: degrees before the point, minutes after it
        degrees = x.trunc()  # TSPLIB's text says nint, its optimal values were computed with int()
        return 3.141592 * (degrees + 5.0 * (x - degrees) / 3.0) / 180.0

    (latitude_a, longitude_a), (latitude_b, longitude_b) = radians(a).unbind(-1), radians(b).unbind(-1)
    q1 = (longitude_a - longitude_b).cos()
    q2 = (latitude_a - latitude_b).cos()
    q3 = (latitude_a + latitude_b).cos()
    cosine = 0.5 * ((1.0 + q1) * q2 - (1.0 - q1) * q3)
    return (6378.388 * cosine.acos() + 1.0).floor()  # rounding cannot push this form of the cosine beyond +-1


METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "EUC_2D": lambda a, b: _nint(_euclidean(a, b)),
    "CEIL_2D": lambda a, b: _euclidean(a, b).ceil(),
    "ATT": _pseudo_euclidean,
    "GEO": _geographical,
    "EUCLIDEAN": _euclidean,  # unrounded; no type of TSPLIB
}


def _read(path: Path, section: str, allowed: dict[str, Collection[str]]) -> _Content:
    """The header and the lines of `section`, which must be the only data section of the file.

    Arguments:
        allowed: the required keywords other than DIMENSION, each with the values supported.
    """
    header: dict[str, tuple[int, str]] = {}
    rows: list[tuple[int, list[str]]] | None = None  # None until the section begins
    ended = False
    for line, text in lines(path):
        bare = text.rstrip(": \t")
        if ended:
            raise error(path, line, f"nothing may follow EOF, got {short(text)}")
        elif bare == "EOF":
            ended = True
        elif bare.endswith("_SECTION"):
            if bare != section or rows is not None:
                raise error(path, line, f"one data section is supported, {section}, and once; got {short(bare)}")
            rows = []
        elif rows is not None:
            rows.append((line, text.split()))
        else:
            _read_keyword(path, line, text, header, allowed)
    missing = [keyword for keyword in allowed if keyword not in header]
    if missing:
        raise error(path, None, f"the header lacks {', '.join(missing)}")
    if rows is None:
        raise error(path, None, f"there is no {section}")
    return _Content(header, rows)


def _read_keyword(
    path: Path, line: int, text: str, header: dict[str, tuple[int, str]], allowed: dict[str, Collection[str]]
) -> None:
    """Add `KEYWORD: value` to the header."""
    keyword, colon, value = (part.strip() for part in text.partition(":"))
    if not colon:
        raise error(path, line, f"a header line is `KEYWORD: value`, got {short(text)}")
    if keyword in header and keyword != "COMMENT":
        raise error(path, line, f"{keyword} was already given in line {header[keyword][0]}")
    if keyword in allowed and _first_word(value) not in allowed[keyword]:
        raise error(path, line, f"{keyword} must be one of {', '.join(allowed[keyword])}, got {short(value)}")
    header[keyword] = (line, value)


def _dimension(path: Path, header: dict[str, tuple[int, str]]) -> int | None:
    """The value of DIMENSION, which nothing is allocated by, or None without one."""
    return number(path, *header["DIMENSION"], int, "DIMENSION") if "DIMENSION" in header else None


def _node(path: Path, line: int, word: str, num_nodes: int) -> int:
    """The node of an id from 1, counted from 0."""
    node = number(path, line, word, int, "a node id")
    if not 1 <= node <= num_nodes:
        raise error(path, line, f"node ids are 1..{num_nodes}, got {short(word)}")
    return node - 1


def _coordinate(path: Path, line: int, word: str) -> float:
    value = number(path, line, word, float, "a coordinate")
    if not math.isfinite(value) or abs(value) > LARGEST_COORDINATE:
        raise error(path, line, f"coordinates must lie within +-{LARGEST_COORDINATE:g}, got {short(word)}")
    return value


def _first_word(value: str) -> str:
    """The value without the remark that some files of TSPLIB put behind it."""
    return value.split()[0] if value else ""
