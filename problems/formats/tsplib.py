"""TSPLIB95 files of the TSP, and their tour lengths under its roundings [Reinelt 1995]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from problems.formats.maps import classical_scaling
from problems.formats.matrices import EXPLICIT, SECTION, read_matrix
from problems.formats.sections import (
    Content,
    Header,
    Sections,
    check_count,
    first_word,
    name_of,
    node_coordinates,
    node_id,
    read_content,
)
from problems.formats.text import error

UNROUNDED = "EUCLIDEAN"  # the metric of instances that come from no file with a type
CONVENTIONS = {"rounded": "EUC_2D", "exact": "EXACT_2D"}  # metrics that can be asked for in place of the file's own
MOST_NODES = 1000  # of those whose distances are looked at
MOST_CHANGE = 0.15  # of distances by rounding, as a share; uniform points in a square of 4 by 4 have 0.12
FINER = 1000  # rounding to a thousandth is as good as none
MAPS = ("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION")  # sections with a map for a matrix of distances

Metric = str | Tensor  # a key of METRICS, or distances [N, N] float64 from row to column, whose diagonal is ignored


class TsplibInstance(NamedTuple):
    name: str
    coords: np.ndarray  # [N, 2] float64, as in the file, or a map made of its matrix
    metric: Metric  # its EDGE_WEIGHT_TYPE, unless other distances were asked for, or its matrix


def read_tsplib(path: str | Path, distances: str | None = None) -> TsplibInstance:
    """The instance in a file of TYPE TSP or ATSP.

    Arguments:
        distances: see `metric_of`

    Raises ValueError with file, line and rule for everything else, malformed files included.
    """
    path = Path(path)
    supported = [metric for metric in METRICS if metric != UNROUNDED]
    required = {"TYPE": ["TSP", "ATSP"], "EDGE_WEIGHT_TYPE": [*supported, EXPLICIT], "DIMENSION": []}
    content = read_content(path, node_sections, required)
    header = content.header
    coords, metric = read_nodes(path, content, distances)
    if len(coords) < 3:
        raise error(path, header["DIMENSION"][0], f"a tour needs at least 3 nodes, DIMENSION is {len(coords)}")
    return TsplibInstance(name_of(path, header, ".tsp", ".atsp"), coords, metric)


def read_tour(path: str | Path) -> list[int]:
    """The tour in a TSPLIB file of TYPE TOUR: a permutation of 0..N-1, in the order of the visit."""
    path = Path(path)
    header, rows, _ = read_content(path, lambda header: Sections(["TOUR_SECTION"]), {"TYPE": ["TOUR"]})
    words = [(line, word) for line, text in rows["TOUR_SECTION"] for word in text.split()]
    for _ in range(2):  # -1 ends the tour, and another one the section; most files have but one, some none
        if words and words[-1][1] == "-1":
            words.pop()
    if inner := [line for line, word in words if word == "-1"]:
        raise error(path, inner[0], "-1 ends a tour, and another tour follows; a file must have one alone")
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


def node_sections(header: Header) -> Sections:
    """The sections with the nodes, or their distances, in a file with this header."""
    if first_word(header.get("EDGE_WEIGHT_TYPE", (0, ""))[1]) == EXPLICIT:
        return Sections([SECTION], MAPS)
    return Sections(["NODE_COORD_SECTION"], ["DISPLAY_DATA_SECTION"])  # of pictures alone


def read_nodes(path: Path, content: Content, distances: str | None) -> tuple[np.ndarray, Metric]:
    """The coordinates [N, 2] of the nodes of an instance, and its metric.

    A matrix of distances comes with a map: that of the file, else one made by `classical_scaling`.

    Arguments:
        distances: see `metric_of`
    """
    if SECTION not in content.rows:
        coords = node_coordinates(path, content)
        return coords, metric_of(path, content, coords, distances)
    if distances is not None:
        line, _ = content.header["EDGE_WEIGHT_TYPE"]
        raise error(path, line, f"problem.distances={distances} is for coordinates, not for {EXPLICIT} distances")
    matrix = torch.from_numpy(read_matrix(path, content))
    drawn = next((section for section in MAPS if section in content.rows), None)
    coords = node_coordinates(path, content, drawn) if drawn else classical_scaling(matrix).numpy()
    return coords, matrix


def check_distances(distances: str | None) -> None:
    """Raises ValueError for a convention that there is not."""
    if distances not in (None, *CONVENTIONS):
        raise ValueError(f"distances must be one of {', '.join(CONVENTIONS)} or null, got {distances!r}")


def metric_of(path: Path, content: Content, coords: np.ndarray, distances: str | None) -> str:
    """The metric of an instance with coordinates [N, 2], a key of METRICS.

    Arguments:
        distances: None: as EDGE_WEIGHT_TYPE says; "rounded": each to the nearest whole number, where the file has exact
            ones; "exact": without rounding

    Raises ValueError with file and rule if there are no such distances, or the rounding leaves nothing of the instance.
    """
    line, value = content.header["EDGE_WEIGHT_TYPE"]
    metric = first_word(value)
    if distances == "rounded" and metric == "EXACT_2D":
        metric = "EUC_2D"
    if distances == "exact":
        if metric not in ("EUC_2D", "CEIL_2D", "EXACT_2D"):
            raise error(path, line, f"problem.distances=exact is for Euclidean distances, not for {metric}")
        metric = "EXACT_2D"
    if (
        metric not in (*EXACT, "GEO")
        and (coords % 1 != 0).any()
        and (change := _rounding(coords, metric)) > MOST_CHANGE
    ):
        rule = f"rounding to whole numbers changes distances by {change:.0%} on average"
        remedy = "multiply the coordinates, by 10000 say"
        if metric != "ATT":
            remedy += ", or evaluate with problem.distances=exact"
        raise error(path, None, f"{rule}: {remedy}")
    return metric


def doubts(instance: TsplibInstance) -> list[str]:
    """Why the coordinates of a GEO file do not seem to be degrees and minutes, DDD.MM: a line, or none."""
    minutes = np.abs(np.modf(instance.coords)[0]) * 100
    wrong = ((minutes > 59.999) | (np.abs(instance.coords) > (90, 180))).any(axis=1)
    if instance.metric != "GEO" or not wrong.any():
        return []
    x, y = instance.coords[node := int(wrong.argmax())]
    what = f"GEO coordinates are latitude and longitude in degrees and minutes, DDD.MM; {x:.10g} {y:.10g} are not"
    return [f"{instance.name}: {what} (node {node + 1}): if they are decimal degrees, distances are wrong"]


def _rounding(coords: np.ndarray, metric: str) -> float:
    """The mean change of the distances between nodes [N, 2] by rounding, as a share of the mean distance."""
    some = torch.from_numpy(coords[:: len(coords) // MOST_NODES + 1])
    rounded, finer = (edge_lengths(k * some[:, None], k * some[None], metric) / k for k in (1, FINER))
    return float((rounded - finer).abs().sum() / finer.sum().clamp(min=1e-300))


def cost_text(cost: float) -> str:
    """A cost in a solution file, whole if its distances are."""
    return f"{cost:.0f}" if cost == round(cost) else f"{cost:.10g}"


def tour_text(name: str, tour: list[int], length: float) -> str:
    """A file of TYPE TOUR with a tour 0..N-1 of the instance `name`, as `read_tour` and other programs read it."""
    header = (
        f"NAME : {name}\nCOMMENT : length {cost_text(length)}\nTYPE : TOUR\nDIMENSION : {len(tour)}\nTOUR_SECTION\n"
    )
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
    "EXACT_2D": _euclidean,  # unrounded; a type of CVRPLIB
    UNROUNDED: _euclidean,
}
EXACT = ("EXACT_2D", UNROUNDED)  # the metrics that do not round
