"""The distances of TSP and CVRP instances, by metric: along walks, between all nodes, in whole numbers for solvers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from problems.formats.matrices import EXPLICIT
from problems.formats.tsplib import EXACT, Metric, edge_lengths, tour_lengths

UNROUNDED = "EUCLIDEAN"  # the metric of random instances
SCALED_TO = 10_000_000  # the longest unrounded distance in whole numbers
LARGEST = 1 << 36  # a distance for the solver, whose penalties of overload fit in 64 bits up to a total demand of 2^26


class WholeDistances(NamedTuple):
    whole: np.ndarray  # [n, n] int64
    scale: float  # whole = scale * length, rounded
    error: float  # of one length when computed back


def title_of(metric: Metric) -> str:
    """The metric as messages show it."""
    return metric if isinstance(metric, str) else EXPLICIT


def is_whole(metric: Metric) -> bool:
    """Whether all lengths are whole numbers."""
    if isinstance(metric, str):
        return metric not in EXACT
    lengths = distances_between(None, metric)
    return bool((lengths == lengths.round()).all())


def is_symmetric(metric: Metric) -> bool:
    """Whether there and back are equally far."""
    if isinstance(metric, str):
        return True
    lengths = distances_between(None, metric)
    return torch.equal(lengths, lengths.T)


def distances_between(coords: Tensor | None, metric: Metric) -> Tensor:
    """Distances [N, N] float64 from row to column, 0 on the diagonal.

    Arguments:
        coords: [N, 2] float64; a matrix needs none
    """
    if isinstance(metric, Tensor):
        return metric.clone().fill_diagonal_(0.0)
    return edge_lengths(coords[:, None], coords[None], metric).fill_diagonal_(0.0)


def walk_lengths(coords: Tensor, metrics: list[Metric], index: Tensor, walks: Tensor) -> Tensor:
    """Lengths [m] float64 of closed walks [m, L] on the instances `index` [m] of coords [n, N, 2], each in its metric.

    All on the CPU, which has float64.
    """
    # Walks that can be measured together, by the name of a metric or the instance.
    alike: dict[str | int, list[int]] = {}
    for place, instance in enumerate(index.tolist()):
        metric = metrics[instance]
        alike.setdefault(metric if isinstance(metric, str) else instance, []).append(place)
    lengths = torch.empty(len(index), dtype=torch.float64)
    for places in map(torch.tensor, alike.values()):
        instances = index[places]
        metric = metrics[int(instances[0])]
        if isinstance(metric, str):
            lengths[places] = tour_lengths(coords[instances], walks[places], metric)
        else:
            lengths[places] = _matrix_lengths(metric, walks[places])
    return lengths


def _matrix_lengths(distances: Tensor, walks: Tensor) -> Tensor:
    """Lengths [m] of closed walks [m, L]; a step from a node to itself has the length 0, whatever the diagonal says."""
    following = walks.roll(-1, dims=1)
    return torch.where(walks == following, 0.0, distances[walks, following]).sum(dim=1)


def whole_distances(coords: Tensor, metric: Metric) -> WholeDistances:
    """Distances between the nodes [n, 2] in whole numbers: as they are where the metric has such, else scaled.

    Raises ValueError for distances above LARGEST.
    """
    lengths = distances_between(coords, metric)
    longest = float(lengths.max())
    if is_whole(metric):
        if longest > LARGEST:
            raise ValueError(f"distances of up to {longest:g} are too large for the solver, which takes {LARGEST:g}")
        return WholeDistances(lengths.long().numpy(), 1.0, 0.0)
    scale = SCALED_TO / longest if longest > 0 else 1.0
    return WholeDistances((lengths * scale).round().long().numpy(), scale, 0.5 / scale)
