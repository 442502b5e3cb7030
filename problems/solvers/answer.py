"""What solvers are asked and what they answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SolverError(ValueError):
    """A solver found nothing in its time, or its answer is not what it claims; the message says which."""


class Options(NamedTuple):
    """How long a solver looks, and from which random numbers."""

    time_limit: float  # seconds per instance
    seed: int
    patience: int | None  # iterations without improvement after which it stops earlier; None: never


class Answer(NamedTuple):
    """One solution with what its solver claims of it."""

    actions: np.ndarray  # [T] int64 in the problem's own encoding
    lowest: float  # the true cost is at least this ...
    highest: float  # ... and at most this
    kind: str  # how good it is, e.g. "optimal (CP-SAT)"
    seconds: float  # wall-clock
