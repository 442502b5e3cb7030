"""Pseudo-experts: the best of the solutions that a policy samples."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, joined, take
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import advice_on_memory
from gumbeldore.runtime.stopping import Progress, Stop, never, silent
from gumbeldore.sampler import methods
from gumbeldore.sampler.methods import Method
from gumbeldore.sampler.solutions import Solutions, first_occurrences, solution_hash
from gumbeldore.seeding import fold, generator
from gumbeldore.training.dataset import Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState

GREEDY, SEARCH = 0, 1  # what an instance is solved by


class BestSolutions(NamedTuple):
    """What training needs of the solutions of n instances; nothing else of them leaves the worker."""

    actions: Tensor  # [n, T] of the best
    costs: Tensor  # [n] float64
    samples: Tensor  # [n] solutions sampled
    distinct: Tensor  # [n] different ones among them
    cost_sum: Tensor  # [n] float64 over all of them
    evaluations: int


def sample_new_instances(
    state: TrainState, settings: TrainSettings, search: Method, pool: SearchPool, execution: Execution
) -> tuple[Shard, dict[str, float]]:
    """The experts of the next epoch, sampled with the best policy (or the current one), and metrics.

    A policy with random weights is the best policy until the first trained one has been validated.

    Raises Stopped if the training is to end.
    """
    instances = training_instances(pool.problem, settings, execution.seed, state.epoch)
    keys = fold(execution.seed, "sampling", state.epoch, torch.arange(batch_size(instances)))
    load_sampling_policy(pool, state, settings)
    search = search_of_epoch(search, settings, state.epoch)
    experts, metrics = sample_experts(pool, instances, keys, search, execution.progress, execution.stop)
    return Shard(f"epoch_{state.epoch + 1:06d}", instances, experts.actions, experts.costs), metrics


def load_sampling_policy(pool: SearchPool, state: TrainState, settings: TrainSettings) -> None:
    """Let the pool search with the policy that samples: the best one, or the one that is trained."""
    pool.load((state.best if settings.sample_with_best else state.policy).state_dict())


def search_of_epoch(search: Method, settings: TrainSettings, epoch: int) -> Method:
    """The search in an epoch; in the first epochs it has no nucleus."""
    return without_nucleus(search) if epoch < settings.nucleus_after else search


def without_nucleus(method: Method) -> Method:
    """The same method, and the methods inside it, with a nucleus of 1: all actions."""
    values = {spec.name: getattr(method, spec.name) for spec in fields(method)}
    inner = {name: without_nucleus(value) for name, value in values.items() if isinstance(value, Method)}
    return replace(method, **inner, **{name: 1.0 for name in values if name.startswith("top_p_")})


@advice_on_memory("memory does not suffice for the instances of an epoch; lower train.instances_per_epoch", ValueError)
def training_instances(problem: Problem, settings: TrainSettings, seed: int, epoch: int) -> Any:
    """New random instances of an epoch: of the size that is due then, or full-sized ones for a pool."""
    stage = problem.curriculum(1.0 if settings.pool else epoch / settings.epochs)
    instances = stage.generate(settings.instances_per_epoch, generator(seed, "instances", epoch))
    if settings.decisions_per_epoch is None:
        return instances
    count = max(1, settings.decisions_per_epoch // problem.horizon(instances))
    return take(instances, slice(0, count))


def grows(problem: Problem, progress: float) -> bool:
    """Whether training instances take more decisions at the end than after a share `progress` of the epochs."""
    stages = (problem.curriculum(progress), problem.curriculum(1.0))
    now, last = (stage.horizon(stage.generate(1, torch.Generator().manual_seed(0))) for stage in stages)
    return now < last


def sample_experts(
    pool: SearchPool,
    instances: Any,
    keys: Tensor,
    search: Method,
    progress: Progress = silent,
    stop: Stop = never,
) -> tuple[BestSolutions, dict[str, float]]:
    """The best of the sampled solutions of each instance, and metrics: how the sampling went."""
    start = time.perf_counter()
    count, done = batch_size(instances), 0
    parts: tuple[dict[int, BestSolutions], ...] = ({}, {})  # GREEDY, SEARCH; each by the first of the instances
    progress("sampling", 0, count)
    for which, chunk, found in pool.map_all(instances, keys, (methods.Greedy(), search), stop, best_of):
        parts[which][chunk.start] = found
        if which == SEARCH:
            done += len(found.costs)
            progress("sampling", done, count)
    greedy, sampled = map(_in_order, parts)
    return sampled, sampling_metrics(greedy, sampled, time.perf_counter() - start)


def sampling_metrics(greedy: BestSolutions, sampled: BestSolutions, seconds: float) -> dict[str, float]:
    """How good the samples of the same instances are, how different, how fast."""
    total = sampled.samples.sum().item()
    metrics = {
        "sampling/best_cost": sampled.costs.mean().item(),
        "sampling/mean_cost": (sampled.cost_sum.sum() / total).item(),
        "sampling/greedy_cost": greedy.costs.mean().item(),
        "sampling/improved_share": (sampled.costs < greedy.costs).double().mean().item(),
        "sampling/distinct_share": sampled.distinct.sum().item() / total,
        "sampling/solutions": total,
        "sampling/solutions_per_second": total / seconds,
        "sampling/evaluations": sampled.evaluations + greedy.evaluations,
    }
    whole = greedy.costs.sum()
    if whole and (greedy.costs * whole >= 0).all():  # else a ratio of costs says nothing
        metrics["sampling/improvement_over_greedy"] = (whole.sign() * (1 - sampled.costs.sum() / whole)).item()
    return metrics


def best_of(solutions: Solutions) -> BestSolutions:
    """Distinct solutions are told apart by a hash of their actions."""
    actions, costs = solutions.best()
    first = first_occurrences(solution_hash(solutions.actions), solutions.valid)
    return BestSolutions(
        actions,
        costs,
        samples=solutions.valid.sum(dim=1),
        distinct=first.sum(dim=1),
        cost_sum=solutions.costs.masked_fill(~solutions.valid, 0.0).sum(dim=1),
        evaluations=solutions.stats.evaluations,
    )


def _in_order(parts: dict[int, BestSolutions]) -> BestSolutions:
    """In the order of the instances, whatever order their chunks came back in: sums do not depend on it."""
    return joined([parts[first] for first in sorted(parts)])
