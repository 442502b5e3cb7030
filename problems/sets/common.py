"""What the evaluation sets of all problems share."""

from __future__ import annotations

import numpy as np


def taken(limit: int | None, available: int, source: str) -> int:
    """How many instances to take."""
    if limit is not None and not 1 <= limit <= available:
        raise ValueError(f"{source} has {available} instances, between 1 and {available} can be taken, not {limit}")
    return available if limit is None else limit


def numbered(name: str, n: int) -> list[str]:
    """Names of the instances of a set without names."""
    return [f"{name}/{i}" for i in range(n)]


def kinds_of(costs: np.ndarray, kind: str) -> list[str]:
    """`kind` for each known reference cost [n], empty where it is NaN."""
    return ["" if np.isnan(cost) else kind for cost in costs]
