"""The distances of TSP and CVRP instances, by metric: along walks, between all nodes, in whole numbers for solvers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from problems.formats.matrices import EXPLICIT
from problems.formats.tsplib import EXACT, Metric, edge_lengths, tour_lengths

SCALED_TO = 10_000_000  # the longest unrounded distance in whole numbers
LARGEST = 1 << 36  # a distance for the solver, whose penalties of overload fit in 64 bits up to a total demand of 2^26


class WholeDistances(NamedTuple):
    whole: np.ndarray  # [n, n] int64
    scale: float  # whole = scale * length, rounded
    error: float  # of one length when computed back
    excess: float  # of the longest length, of forbidden arcs, over the one that stands for it


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


def whole_distances(coords: Tensor | None, metric: Metric, largest: int = LARGEST) -> WholeDistances:
    """Distances between the nodes [n, 2] in whole numbers: as they are where the metric has such, else scaled.

    Arguments:
        coords: [n, 2] float64; a matrix needs none
        largest: of the whole numbers; longer distances are scaled, too
    """
    lengths = distances_between(coords, metric)
    longest, whole = float(lengths.max()), is_whole(metric)
    ordinary = cap = longest
    if isinstance(metric, Tensor) and not (whole and longest <= largest):
        ordinary, cap = _without_forbidden(lengths)
    if whole and cap <= largest:
        scale, error = 1.0, 0.0
    else:
        scale = min(SCALED_TO / ordinary, largest / cap) if longest > 0 else 1.0
        error = 0.5 / scale
    return WholeDistances((lengths.clamp(max=cap) * scale).round().long().numpy(), scale, error, longest - cap)


def _without_forbidden(lengths: Tensor) -> tuple[float, float]:
    """The longest length of a matrix [n, n] that is not of forbidden arcs, and a length that can stand for theirs.

    Forbidden is what has the longest length M, if M is above a bound B of what solutions spend on all other arcs. A TSP
    or CVRP solution leaves each node but the depot once, and the depot for each node once at most: B is the sum of the
    longest other length of each row, and of all other lengths of the depot's row. Then a solution with fewer forbidden
    arcs is always the cheaper one; of two with equally many, it is the one that spends less on the other arcs. The same
    holds with any length above B in place of M: no two solutions change their order, the optimum stays the optimum.
    Here it is 2 B, so that rounding cannot matter.
    """
    longest = float(lengths.max())
    others = lengths.where(lengths < longest, 0.0)
    cap = 2.0 * float(others.amax(dim=1).sum() + others[0].sum())
    return (float(others.max()), cap) if 0 < cap < longest else (longest, longest)
