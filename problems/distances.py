"""Distances in whole numbers, as solvers of routing problems take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from problems.formats.tsplib import EXACT, edge_lengths

UNROUNDED = "EUCLIDEAN"  # the metric of random instances
SCALED_TO = 10_000_000  # the longest unrounded distance in whole numbers
LARGEST = 1 << 36  # a distance that penalties can be derived from and multiplied by loads in 64 bits


class WholeDistances(NamedTuple):
    whole: np.ndarray  # [n, n] int64
    scale: float  # whole = scale * length, rounded
    error: float  # of one length when computed back


def whole_distances(coords: Tensor, metric: str) -> WholeDistances:
    """Distances between the nodes [n, 2] in whole numbers: as they are where the metric rounds, else scaled.

    Raises ValueError for distances above LARGEST.
    """
    lengths = edge_lengths(coords[:, None], coords[None], metric).fill_diagonal_(0.0)
    longest = float(lengths.max())
    if metric not in EXACT:
        if longest > LARGEST:
            raise ValueError(f"distances of up to {longest:g} are too large for the solver, which takes {LARGEST:g}")
        return WholeDistances(lengths.long().numpy(), 1.0, 0.0)
    scale = SCALED_TO / longest if longest > 0 else 1.0
    return WholeDistances((lengths * scale).round().long().numpy(), scale, 0.5 / scale)
