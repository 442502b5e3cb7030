"""Self-improvement training [GD, algorithm 1]: sample, keep the best, imitate, validate.

`self_improvement` is the whole loop; it neither prints nor logs, but yields one report per epoch.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from gumbeldore.ahead import Ahead
from gumbeldore.dataset import Shard
from gumbeldore.experts import sample_experts
from gumbeldore.imitation import fit
from gumbeldore.interfaces import Benchmark, Problem
from gumbeldore.learner import Learner
from gumbeldore.search import SearchConfig, TopP
from gumbeldore.seeding import fold, generator
from gumbeldore.settings import TrainSettings, times
from gumbeldore.stopping import Progress, Stop, Stopped, silent
from gumbeldore.trainers import ALONE, Alone, Trainers
from gumbeldore.validation import validate
from gumbeldore.workers import SearchPool


class Report(NamedTuple):
    """What one epoch did. `metrics` are numbers by TensorBoard tag; `complete` is False if it was cut short."""

    epoch: int
    metrics: dict[str, float]
    improved: bool
    complete: bool


def self_improvement(
    problem: Problem,
    learner: Learner,
    settings: TrainSettings,
    search: SearchConfig,
    pool: SearchPool,
    validation: Benchmark,
    *,
    seed: int,
    device: torch.device,
    precision: str,
    progress: Progress = silent,
    stop: Stop = lambda: False,
    trainers: Alone | Trainers = ALONE,
) -> Iterator[Report]:
    """Train until settings.epochs are done or `stop()` holds; yields a report per epoch.

    The untrained policy is not validated: some decide well by chance, but all sample at random, and a first trained
    policy that had to beat such a one might never be sampled from.
    With `settings.experts` the dataset is given: it is neither added to nor emptied (supervised training).
    With `settings.sample_ahead` an epoch's experts are sampled while the epoch before is learnt from, by the best
    policy there was then (those of the first two epochs by the untrained one).
    Every random number comes from (seed, purpose, epoch), so a run continued from a checkpoint taken at a complete
    report repeats nothing and skips nothing. The last report is incomplete if the epoch was stopped while training, or
    waiting for what is sampled ahead: its policy has been validated, but the learner is not to be continued from.
    """
    sample = functools.partial(sample_epoch, problem, settings, search, pool, seed)
    while learner.epoch < settings.epochs and not stop():
        epoch = learner.epoch
        clock = Clock()
        sampled: dict[str, float] = {}
        if settings.samples:
            pool.load(learner.best.state_dict())
        if settings.samples and learner.sampled == epoch:
            try:
                sampled = add_experts(learner, settings, *sample(epoch, progress, stop))
            except Stopped:
                return
        clock.lap("sampling")

        going_on = settings.samples_ahead and learner.sampled < settings.epochs
        with Ahead(functools.partial(sample, epoch + 1) if going_on else None, pool.elsewhere, progress, stop) as ahead:
            draws = generator(seed, "batches", epoch)
            size = len(learner.dataset)
            trainers.begin(learner)
            fitted = fit(problem, learner, settings, draws, device, precision, progress, stop, trainers)
            clock.lap("training")
            complete, following = fitted.complete, None
            if complete:
                try:
                    following = ahead.result()
                except Stopped:
                    complete = False
            clock.lap("sampling")

        cost, gap = judge(learner, settings, pool, validation, complete, progress)
        clock.lap("validation")
        improved = accept(learner, cost, gap)
        if improved and settings.samples and settings.forget:
            learner.dataset.clear()
        if following:
            sampled = add_experts(learner, settings, *following)
        learner.epoch += complete
        learner.totals["seconds"] += sum(clock.seconds.values())
        learner.totals["batches"] += fitted.batches
        metrics = {
            **sampled,
            **fitted.metrics,
            **quality(cost, gap, learner),
            "training/dataset_size": size,
            **{f"seconds/{phase}": seconds for phase, seconds in clock.seconds.items()},
            **{f"totals/{name}": value for name, value in learner.totals.items()},
        }
        yield Report(epoch + 1, metrics, improved, complete)
        if not complete:
            return


def sample_epoch(
    problem: Problem,
    settings: TrainSettings,
    search: SearchConfig,
    pool: SearchPool,
    seed: int,
    epoch: int,
    progress: Progress,
    stop: Stop,
) -> tuple[Shard, dict[str, float]]:
    """Sample one epoch's pseudo-experts with the policy that the pool has; returns them and how the sampling went."""
    trained = problem.at(epoch / settings.epochs) if hasattr(problem, "at") else problem
    count, sampler = plan(settings, search, epoch)
    instances = trained.generate(count, generator(seed, "instances", epoch))
    keys = fold(seed, "sampling", epoch, torch.arange(count))
    experts = sample_experts(pool, instances, keys, sampler, settings.greedy_too, progress, stop)
    return Shard(f"epoch_{epoch + 1:06d}", instances, *experts[:3]), experts.metrics


def plan(settings: TrainSettings, search: SearchConfig, epoch: int) -> tuple[int, SearchConfig]:
    """How many instances an epoch samples, and how."""
    count = settings.instances_per_epoch
    if late := settings.late_in(epoch):
        count = times(count, late.instances)
        search = replace(search, beam_width=times(search.beam_width, late.beam_width))
    return count, search if epoch >= settings.nucleus_after else replace(search, top_p=TopP())


def add_experts(learner: Learner, settings: TrainSettings, shard: Shard, metrics: dict[str, float]) -> dict[str, float]:
    """The next epoch's pseudo-experts into the dataset."""
    learner.dataset.capacity = settings.capacity_in(learner.sampled)
    learner.dataset.add(*shard)
    learner.sampled += 1
    learner.totals["solutions"] += metrics["sampling/solutions"]
    return metrics


def judge(
    learner: Learner,
    settings: TrainSettings,
    pool: SearchPool,
    validation: Benchmark,
    complete: bool,
    progress: Progress,
) -> tuple[float, float]:
    """Greedy cost and gap of the candidate, in epochs that are validated; otherwise NaN.

    There has to be a best policy from the first epoch on, and nothing comes after one that is not complete.
    """
    if not (settings.validates(learner.epoch) or not complete or learner.best_cost == math.inf):
        return math.nan, math.nan
    pool.load(learner.candidate.state_dict())
    return validate(pool, validation, progress)


def accept(learner: Learner, cost: float, gap: float) -> bool:
    """Whether the candidate, of this greedy cost (NaN: not known) and gap, is the best policy from now on."""
    improved = cost < learner.best_cost
    if improved:
        learner.best.load_state_dict(learner.candidate.state_dict())
        learner.best_cost, learner.best_gap = cost, gap
    return improved


def quality(cost: float, gap: float, learner: Learner) -> dict[str, float]:
    """Greedy cost and gap of the trained policy and of the best one; those that are known."""
    metrics = {"greedy_cost": cost, "best_greedy_cost": learner.best_cost}
    metrics |= {"greedy_gap": gap, "best_greedy_gap": learner.best_gap}
    return {f"quality/{name}": value for name, value in metrics.items() if not math.isnan(value)}


class Clock:
    """Seconds since the last lap, by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
