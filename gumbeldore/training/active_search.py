"""Active search: self-improvement on given instances, each of which keeps the best solution ever found for it.

Bello et al. 2017 (Neural Combinatorial Optimization with Reinforcement Learning, section 4.2) adapt a policy to an
instance by policy gradients. Here the policy imitates the best solutions, as it does in training [GD, algorithm 1].
"""

from __future__ import annotations

import math

from gumbeldore.benchmark import Benchmark
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import generator
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.incumbents import Incumbents, improve
from gumbeldore.training.recorder import Clock, EpochReport, Recorder, usage_metrics
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState


def active_search(
    problem: Problem,
    state: TrainState,
    settings: TrainSettings,
    search: Method,
    pool: SearchPool,
    validation: list[Benchmark],
    recorder: Recorder,
    *,
    seed: int = 0,
    execution: Execution = Execution(),
) -> Incumbents:
    """Sample with the policy, keep the best solution ever of each instance, imitate these, again and again.

    Ends after `settings.epochs`, after `settings.patience` epochs without a better solution of any instance, or when
    `execution.stop()` holds. The arguments are those of `train.self_improvement`, but for:

        search: how the policy that is being trained samples
        validation: the given instances, a Benchmark for each size

    Returns the best solutions. Those of an epoch that was cut short are among them, and in the dataset, although a
    continued run repeats this epoch; a search with a reconstruction then begins from them.
    """
    incumbents = Incumbents.of(problem, validation, state.dataset.shards)
    while state.epoch < settings.epochs and not state.stale(settings.patience) and not execution.stop():
        clock = Clock()
        pool.load(state.policy.state_dict())
        sampling, complete = improve(incumbents, search, pool, seed, state.epoch, execution)
        state.dataset.clear()
        for shard in incumbents.shards(state.epoch + 1):
            state.dataset.add(*shard)
        clock.lap("sampling")
        if not complete:
            state.count(clock.total, 0, sampling)
            break

        imitation = fit(problem, state, settings, generator(seed, "batches", state.epoch), execution)
        clock.lap("training")
        state.count(clock.total, imitation.batches, sampling)
        if not imitation.complete:
            break

        state.epoch += 1
        improved = state.accept(incumbents.quality())
        if improved:
            recorder.best(state)
        quality = {"quality/best_cost": state.best_cost, "quality/best_gap": state.best_gap}
        size = {"training/dataset_size": len(state.dataset)}
        metrics = {**sampling, **imitation.metrics, **size, **quality, **usage_metrics(clock, state)}
        known = {name: value for name, value in metrics.items() if not math.isnan(value)}
        recorder.epoch(state, EpochReport(state.epoch, known, improved))
    return incumbents
