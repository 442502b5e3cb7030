"""What solvers are asked and what they answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SolverError(ValueError):
    """A solver found nothing in its time, or its answer is not what it claims; the message says which."""


class Options(NamedTuple):
    """How long a solver looks, from which random numbers, and with how many threads."""

    time_limit: float  # seconds per instance
    seed: int
    patience: int | None  # iterations without improvement after which it stops earlier; None: never
    threads: int = 1  # for one instance, of CP-SAT


class Answer(NamedTuple):
    """One solution with what its solver claims of it."""

    actions: np.ndarray  # [T] int64 in the problem's own encoding; empty if none is found
    lowest: float  # the true cost is at least this; that of any solution, too, if the backend is `exact` ...
    highest: float  # ... and at most this
    kind: str  # how good it is, e.g. "optimal (CP-SAT)", or why there is none
    seconds: float  # wall-clock
