"""Who writes down what a training tells of each epoch."""

from __future__ import annotations

from typing import Protocol

from gumbeldore.training.report import EpochReport
from gumbeldore.training.state import TrainState


class Recorder(Protocol):
    """Writes checkpoints and metrics."""

    def save_best(self, state: TrainState) -> None:
        """Save the best policy, which is a new one."""

    def save_epoch(self, state: TrainState, report: EpochReport) -> None:
        """Save the state, from which the training can go on, and write down the report of a complete epoch."""


class Silent(Recorder):
    """The recorder that writes nothing; a recorder of one's own may inherit what it does not need."""

    def save_best(self, state: TrainState) -> None:
        pass

    def save_epoch(self, state: TrainState, report: EpochReport) -> None:
        pass
