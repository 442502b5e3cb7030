"""What a run writes while it trains: checkpoints, metrics, TensorBoard, the console."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from gumbeldore.cli.setup import Setup
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting import validation_figure
from gumbeldore.reporting.console import Terminal
from gumbeldore.reporting.tensorboard import Dashboard
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.training.experts import grows
from gumbeldore.training.recorder import Recorder
from gumbeldore.training.report import EpochReport
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState


class OpenRun(NamedTuple):
    """A run of training with its open folder, processes and displays."""

    setup: Setup
    config: dict[str, Any]  # as plain values
    directory: RunDirectory
    pool: SearchPool
    dashboard: Dashboard
    terminal: Terminal
    stopper: Stopper


class RunRecorder(Recorder):
    """The recorder of a run directory.

    Arguments:
        first: the weights that training began with, for pictures; None leaves them out
        begun_at: epochs done before this process began
    """

    def __init__(self, run: OpenRun, first: dict[str, Tensor] | None, begun_at: int):
        self.run, self.first, self.begun_at = run, first, begun_at
        self.metrics: dict[str, float] = {}  # of the last complete epoch

    def save_best(self, state: TrainState) -> None:
        """checkpoints/best.pt: the best policy."""
        save(self.run.directory.best, self.run.config, self.run.setup.problem, state)

    def save_epoch(self, state: TrainState, report: EpochReport) -> None:
        """A line of metrics.jsonl; last.pt, all that the training needs to go on; charts, and a line to read."""
        setup, config, directory, terminal = self.run.setup, self.run.config, self.run.directory, self.run.terminal
        self.metrics = report.metrics
        # The checkpoint comes after the metrics, which a continued run cuts to it, and before files are deleted.
        directory.append_metrics({"epoch": report.epoch, **report.metrics})
        save(directory.last, config, setup.problem, state, whole=True)
        state.dataset.prune()
        every = setup.run.checkpoint_every
        if every and report.epoch % every == 0:
            save(directory.snapshot(report.epoch), config, setup.problem, state)
            directory.thin_out_snapshots()
        with terminal.sparing("the TensorBoard page"):
            self.run.dashboard.epoch(report.epoch, report.metrics)
        terminal.epoch(report, setup.settings.epochs)
        self._say_time_left(report)
        if report.epoch % setup.run.images_every == 0 or report.epoch == setup.settings.epochs:
            with terminal.sparing("a picture of solutions"):
                self._draw(state, report.epoch)

    def _say_time_left(self, report: EpochReport) -> None:
        """Once, after this process's first epoch."""
        setup, stopper = self.run.setup, self.run.stopper
        if self.begun_at + 1 != report.epoch or report.epoch >= setup.settings.epochs or stopper():
            return
        full_sized = setup.settings.pool or not isinstance(setup.settings, TrainSettings)
        growing = not full_sized and grows(setup.problem, self.begun_at / setup.settings.epochs)
        self.run.terminal.time_left(report, setup.settings.epochs, stopper.seconds_left(), growing)

    def _draw(self, state: TrainState, epoch: int) -> None:
        setup, pool = self.run.setup, self.run.pool
        first = {"first policy": self.first} if self.first is not None else {}
        policies = {**first, "best policy": state.best.state_dict()}
        validation, search, seed = setup.validation[0], setup.search, setup.run.seed
        figure = validation_figure.solutions_of(setup.problem, pool, validation, policies, search, seed)
        self.run.dashboard.figure("validation/solutions", figure, epoch)


def save(path: Path, config: dict[str, Any], problem: Problem, state: TrainState, whole: bool = False) -> None:
    """Write a checkpoint.

    Arguments:
        whole: with all that the training needs to go on; otherwise the best policy alone
    """
    content = {"config": config, "problem": problem.name, "epoch": state.epoch, "best_cost": state.best_cost}
    more = {"train_state": state.state_dict()} if whole else {}
    checkpoint.save(path, {**content, "weights": state.best.state_dict(), **more})
