"""What a run writes while it trains: checkpoints, metrics, TensorBoard, the console."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumbeldore.benchmark import count_of
from gumbeldore.cli.evaluation import typed
from gumbeldore.cli.setup import Setup
from gumbeldore.evaluation.parts import BenchmarkResult
from gumbeldore.evaluation.references import with_lower_bounds
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting import validation_figure
from gumbeldore.reporting.console import Terminal, hardware
from gumbeldore.reporting.evaluation_report import EvaluationReport
from gumbeldore.reporting.tensorboard import Dashboard
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.training.incumbents import Incumbents
from gumbeldore.training.recorder import EpochReport
from gumbeldore.training.state import TrainState


class RunRecorder:
    """The recorder of a run directory.

    Arguments:
        config: of the run, as plain values
        first: the weights that training began with, for pictures; None leaves them out
        pool: searches for pictures
        begun_at: epochs done before this process began
    """

    def __init__(
        self,
        directory: RunDirectory,
        setup: Setup,
        config: dict[str, Any],
        first: dict[str, Tensor] | None,
        pool: SearchPool,
        dashboard: Dashboard,
        terminal: Terminal,
        stopper: Stopper,
        begun_at: int,
    ):
        self.directory, self.setup, self.config, self.first = directory, setup, config, first
        self.pool, self.dashboard, self.terminal, self.stopper = pool, dashboard, terminal, stopper
        self.begun_at = begun_at
        self.metrics: dict[str, float] = {}  # of the last complete epoch

    def best(self, state: TrainState) -> None:
        """checkpoints/best.pt: the best policy."""
        save(self.directory.best, self.config, self.setup.problem, state)

    def epoch(self, state: TrainState, report: EpochReport) -> None:
        """A line of metrics.jsonl; last.pt, all that the training needs to go on; charts, and a line to read."""
        self.metrics = report.metrics
        self.directory.append_metrics({"epoch": report.epoch, **report.metrics})
        save(self.directory.last, self.config, self.setup.problem, state, whole=True)
        state.dataset.prune()
        every = self.setup.run.checkpoint_every
        if every and report.epoch % every == 0:
            save(self.directory.snapshot(report.epoch), self.config, self.setup.problem, state)
            self.directory.thin_out_snapshots()
        with self.terminal.sparing("the TensorBoard page"):
            self.dashboard.epoch(report.epoch, report.metrics)
        self._tell(report)
        if report.epoch % self.setup.run.images_every == 0 or report.epoch == self.setup.settings.epochs:
            with self.terminal.sparing("a picture of solutions"):
                self._draw(state, report.epoch)

    def solutions(self, incumbents: Incumbents, state: TrainState) -> None:
        """The best solutions of given instances, as an evaluation writes them: tables, report and solution files.

        They are in the last checkpoint from then on, which is otherwise that of the last complete epoch.
        """
        saved = checkpoint.load(self.directory.last)
        saved["train_state"]["dataset"] = [shard.name for shard in state.dataset.shards]
        checkpoint.save(self.directory.last, saved)
        state.dataset.prune()
        found, benchmarks, count = [], [], count_of(incumbents.benchmarks)
        seconds, sampled, evaluations = (state.totals[name] / count for name in ("seconds", "solutions", "evaluations"))
        for benchmark, actions, costs in zip(incumbents.benchmarks, incumbents.actions, incumbents.costs, strict=True):
            rows = costs.isfinite().nonzero().flatten()
            if len(rows):
                result = BenchmarkResult(
                    actions=actions[rows],
                    costs=costs[rows],
                    found=torch.full_like(rows, int(sampled)),
                    samples=costs[rows, None].float(),
                    seconds=seconds * len(rows),
                    evaluations=int(evaluations * len(rows)),
                )
                found.append(result)
                benchmarks.append(with_lower_bounds(benchmark.part(rows)))
        if missing := count - count_of(benchmarks):
            self.terminal.say(f"{missing} of {count} instances have no solution yet")
        if not benchmarks:
            return
        settings, run = self.setup.settings, self.setup.run
        about = {"checkpoint": str(self.directory.last), "instances": settings.instances, "seed": run.seed}
        about |= {"hardware": hardware(self.setup.device), "precision": self.setup.precision, "command": typed()}
        report = EvaluationReport(self.setup.problem, about, self.terminal)
        report.write(self.directory.path / "results", {"active search": found}, benchmarks)

    def _tell(self, report: EpochReport) -> None:
        epochs, settings = self.setup.settings.epochs, self.setup.settings
        self.terminal.epoch(report, epochs)
        if self.begun_at + 1 == report.epoch < epochs and not self.stopper():
            grown = settings.experts or settings.instances or settings.pool  # given, or full-sized
            growing = not grown and grows(self.setup.problem, self.begun_at / epochs)
            self.terminal.time_left(report, epochs, self.stopper.seconds_left(), growing)

    def _draw(self, state: TrainState, epoch: int) -> None:
        first = {"first policy": self.first} if self.first is not None else {}
        policies = {**first, "best policy": state.best.state_dict()}
        validation, search, seed = self.setup.validation[0], self.setup.search, self.setup.run.seed
        figure = validation_figure.solutions_of(self.setup.problem, self.pool, validation, policies, search, seed)
        self.dashboard.figure("validation/solutions", figure, epoch)


def save(path: Path, config: dict[str, Any], problem: Problem, state: TrainState, whole: bool = False) -> None:
    """Write a checkpoint.

    Arguments:
        whole: with all that the training needs to go on; otherwise the best policy alone
    """
    content = {"config": config, "problem": problem.name, "epoch": state.epoch, "best_cost": state.best_cost}
    more = {"train_state": state.state_dict()} if whole else {}
    checkpoint.save(path, {**content, "weights": state.best.state_dict(), **more})


def grows(problem: Problem, progress: float) -> bool:
    """Whether training instances take more decisions at the end than after a share `progress` of the epochs."""
    stages = (problem.curriculum(progress), problem.curriculum(1.0))
    now, last = (stage.horizon(stage.generate(1, torch.Generator().manual_seed(0))) for stage in stages)
    return now < last
