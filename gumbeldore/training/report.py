"""The metrics of an epoch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class EpochReport:
    """What is known of an epoch, phase by phase."""

    epoch: int  # its number, from 1
    metrics: dict[str, float] = field(default_factory=dict)  # by TensorBoard tag
    improved: bool = False  # whether its policy is the best so far
    seconds: dict[str, float] = field(default_factory=dict)  # of each phase

    def __post_init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self, phase: str, metrics: Mapping[str, float]) -> None:
        """End a phase, with its metrics."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
        self.metrics |= metrics
