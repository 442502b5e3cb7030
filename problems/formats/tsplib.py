"""TSPLIB95 files of the symmetric TSP, and their tour lengths under its roundings [Reinelt 1995]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from problems.formats.sections import check_count, first_word, name_of, node_coordinates, node_id, read_content
from problems.formats.text import error


class TsplibInstance(NamedTuple):
    name: str
    coords: np.ndarray  # [N, 2] float64, as in the file
    metric: str  # its EDGE_WEIGHT_TYPE


def read_tsplib(path: str | Path) -> TsplibInstance:
    """The instance in a file of TYPE TSP whose edges follow from a NODE_COORD_SECTION.

    Raises ValueError with file, line and rule for everything else, malformed files included.
    """
    path = Path(path)
    supported = [metric for metric in METRICS if metric != "EUCLIDEAN"]
    required = {"TYPE": ["TSP"], "EDGE_WEIGHT_TYPE": supported, "DIMENSION": []}
    content = read_content(path, ["NODE_COORD_SECTION"], required)
    header = content.header
    coords = node_coordinates(path, content)
    if len(coords) < 3:
        raise error(path, header["DIMENSION"][0], f"a tour needs at least 3 nodes, DIMENSION is {len(coords)}")
    return TsplibInstance(name_of(path, header, ".tsp"), coords, first_word(header["EDGE_WEIGHT_TYPE"][1]))


def read_tour(path: str | Path) -> list[int]:
    """The tour in a TSPLIB file of TYPE TOUR: a permutation of 0..N-1, in the order of the visit."""
    path = Path(path)
    header, rows = read_content(path, ["TOUR_SECTION"], {"TYPE": ["TOUR"]})
    words = [(line, word) for line, row in rows["TOUR_SECTION"] for word in row]
    if words and words[-1][1] == "-1":  # the end mark, which some files leave out
        words.pop()
    check_count(path, header, "TOUR_SECTION", len(words))  # some tours of TSPLIB itself lack DIMENSION

    tour: dict[int, None] = {}  # an ordered set
    for line, word in words:
        node = node_id(path, line, word, len(words))
        if node in tour:
            raise error(path, line, f"node {node + 1} is visited twice")
        tour[node] = None
    if not tour:
        raise error(path, None, "TOUR_SECTION has no nodes")
    return list(tour)


def tour_text(name: str, tour: list[int], length: float) -> str:
    """A file of TYPE TOUR with a tour 0..N-1 of the instance `name`, as `read_tour` and other programs read it."""
    header = f"NAME : {name}\nCOMMENT : length {length:.0f}\nTYPE : TOUR\nDIMENSION : {len(tour)}\nTOUR_SECTION\n"
    return header + "".join(f"{node + 1}\n" for node in tour) + "-1\nEOF\n"


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
        tours: [m, L] int64 nodes 0..N-1 in the order of the visit; the last is followed by the first.
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
