"""What a training tells of each epoch, and who writes it down."""

from __future__ import annotations

import math
import time
from typing import NamedTuple, Protocol

from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import Quality


class EpochReport(NamedTuple):
    """A complete epoch."""

    epoch: int  # from 1
    metrics: dict[str, float]  # by TensorBoard tag
    improved: bool  # whether its policy is the best so far


class Recorder(Protocol):
    """Writes checkpoints and metrics; by default nothing."""

    def best(self, state: TrainState) -> None:
        """Save the best policy, which is a new one."""

    def epoch(self, state: TrainState, report: EpochReport) -> None:
        """Save the state, from which the training can go on, and write down the report."""


class Clock:
    """Seconds since the last lap, by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now


def quality_metrics(quality: Quality, state: TrainState) -> dict[str, float]:
    """Greedy cost and gap of the trained policy and of the best one; no gap without references."""
    metrics = {"greedy_cost": quality.cost, "best_greedy_cost": state.best_cost}
    metrics |= {"greedy_gap": quality.gap, "best_greedy_gap": state.best_gap}
    metrics |= {f"greedy_cost_{size}": cost for size, cost in quality.costs.items()}
    return {f"quality/{name}": value for name, value in metrics.items() if not math.isnan(value)}


def usage_metrics(clock: Clock, state: TrainState) -> dict[str, float]:
    """Seconds of the epoch by phase, and the totals of the training."""
    phases = {f"usage/seconds/{phase}": seconds for phase, seconds in clock.seconds.items()}
    return phases | {f"usage/totals/{name}": value for name, value in state.totals.items()}
