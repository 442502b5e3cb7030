"""Self-improvement training [GD, algorithm 1]: sample, keep the best, imitate, validate.

`self_improvement` is the whole loop; it neither prints nor logs, but yields one report per epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from gumbeldore.interfaces import Benchmark, Problem, take
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.stopping import Progress, Stop, Stopped, silent
from gumbeldore.sampler.config import SearchConfig
from gumbeldore.seeding import fold, generator
from gumbeldore.training.distributed import SINGLE_PROCESS, DDPLauncher, SingleProcess
from gumbeldore.training.experts import sample_experts
from gumbeldore.training.imitation import fit
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import Quality, validate


class Report(NamedTuple):
    """What one epoch did. `metrics` are numbers by TensorBoard tag; `complete` is False if it was cut short."""

    epoch: int
    metrics: dict[str, float]
    improved: bool
    complete: bool


def self_improvement(
    problem: Problem,
    train_state: TrainState,
    settings: TrainSettings,
    search: SearchConfig,
    pool: SearchPool,
    validation: list[Benchmark],
    *,
    seed: int,
    device: torch.device,
    precision: str,
    progress: Progress = silent,
    stop: Stop = lambda: False,
    ddp: SingleProcess | DDPLauncher = SINGLE_PROCESS,
) -> Iterator[Report]:
    """Train until settings.epochs are done or `stop()` holds; yields a report per epoch.

    A policy with random weights is not validated: some decide well by chance, but all sample at random, and a first
    trained policy that had to beat such a one might never be sampled from.
    With `settings.experts` the dataset is given: it is neither added to nor emptied (supervised training).
    Every random number comes from (seed, purpose, epoch), so a run continued from a checkpoint taken at a complete
    report repeats nothing and skips nothing. The last report is incomplete if the epoch was stopped while training: its
    policy has been validated, but the train_state is not to be continued from.
    """
    while train_state.epoch < settings.epochs and not stop():
        epoch = train_state.epoch
        clock = Clock()
        sampled: dict[str, float] = {}
        if settings.samples:
            try:
                sampled = sample_epoch(problem, train_state, settings, search, pool, seed, progress, stop)
            except Stopped:
                return
        clock.lap("sampling")

        size = len(train_state.dataset)
        ddp.start_epoch(train_state)
        draws = generator(seed, "batches", epoch)
        fitted = fit(problem, train_state, settings, draws, device, precision, progress, stop, ddp)
        clock.lap("training")

        pool.load(train_state.candidate.state_dict())
        quality = validate(pool, validation, progress)
        improved = accept(train_state, quality)
        clock.lap("validation")

        if improved and settings.samples and settings.clear_on_improvement:
            train_state.dataset.clear()
        train_state.epoch += fitted.complete
        train_state.totals["seconds"] += sum(clock.seconds.values())
        train_state.totals["batches"] += fitted.batches
        metrics = {
            **sampled,
            **fitted.metrics,
            **quality_metrics(quality, train_state),
            "training/dataset_size": size,
            **{f"usage/seconds/{phase}": seconds for phase, seconds in clock.seconds.items()},
            **{f"usage/totals/{name}": value for name, value in train_state.totals.items()},
        }
        yield Report(epoch + 1, metrics, improved, fitted.complete)
        if not fitted.complete:
            return


def sample_epoch(
    problem: Problem,
    train_state: TrainState,
    settings: TrainSettings,
    search: SearchConfig,
    pool: SearchPool,
    seed: int,
    progress: Progress,
    stop: Stop,
) -> dict[str, float]:
    """Sample the epoch's pseudo-experts with the best policy into the dataset; returns how the sampling went."""
    epoch, count = train_state.epoch, settings.instances_per_epoch
    trained = problem.at(epoch / settings.epochs) if hasattr(problem, "at") else problem
    instances = trained.generate(count, generator(seed, "instances", epoch))
    if settings.decisions_per_epoch is not None:
        count = min(count, max(1, settings.decisions_per_epoch // problem.horizon(instances)))
        instances = take(instances, slice(0, count))
    keys = fold(seed, "sampling", epoch, torch.arange(count))
    if epoch < settings.nucleus_after:
        search = replace(search, top_p_start=1.0, top_p_end=1.0)
    pool.load(train_state.best.state_dict())
    experts = sample_experts(pool, instances, keys, search, settings.include_greedy, progress, stop)
    name = f"epoch_{epoch + 1:06d}"
    train_state.dataset.add(name, instances, experts.actions, experts.costs, settings.dataset_capacity)
    train_state.totals["solutions"] += experts.metrics["sampling/solutions"]
    return experts.metrics


def accept(train_state: TrainState, quality: Quality) -> bool:
    """Whether the candidate, of this greedy quality, is the best policy from now on."""
    improved = quality.cost < train_state.best_cost
    if improved:
        train_state.best.load_state_dict(train_state.candidate.state_dict())
        train_state.best_cost, train_state.best_gap = quality.cost, quality.gap
    return improved


def quality_metrics(quality: Quality, train_state: TrainState) -> dict[str, float]:
    """Greedy cost and gap of the trained policy and of the best one; no gap without references."""
    metrics = {"greedy_cost": quality.cost, "best_greedy_cost": train_state.best_cost}
    metrics |= {"greedy_gap": quality.gap, "best_greedy_gap": train_state.best_gap}
    metrics |= {f"greedy_cost_{size}": cost for size, cost in quality.costs.items()}
    return {f"quality/{name}": value for name, value in metrics.items() if not math.isnan(value)}


class Clock:
    """Seconds since the last lap, by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = now - self._last
        self._last = now
