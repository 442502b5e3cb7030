"""Greedy quality on a fixed set of instances, by which a new policy is accepted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.benchmark import Benchmark, checked, count_of, gaps_to
from gumbeldore.interfaces import Problem, size_name
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import check_costs, instance_errors
from gumbeldore.runtime.stopping import Progress
from gumbeldore.sampler import methods


class Quality(NamedTuple):
    """Greedy quality of a policy on the validation set."""

    cost: float  # mean over the instances that were looked at
    gap: float  # mean gap of those that have a reference; NaN if none has
    costs: dict[str, float]  # mean cost of the instances of each size; empty where there is one size alone
    each: Tensor = torch.empty(0)  # [N] float64 cost of every instance, NaN where it was not looked at


def validation_set(problem: Problem, n: int, seed: int) -> list[Benchmark]:
    """The problem's validation set, checked."""
    return checked(problem.validation(n, seed), f"{type(problem).__name__}.validation")


def validate(pool: SearchPool, validation: list[Benchmark], progress: Progress) -> Quality:
    """How good the pool's policy is, greedily, on all instances.

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    total, done, found = count_of(validation), 0, []
    for benchmark in validation:
        found.append(greedy_costs(pool, benchmark, progress, done, total))
        done += len(benchmark.names)
    return quality_of(pool.problem, validation, torch.cat(found))


def greedy_costs(pool: SearchPool, benchmark: Benchmark, progress: Progress, done: int, total: int) -> Tensor:
    """True costs [n] float64 of what the pool's policy finds greedily.

    Arguments:
        done, total: of the instances to be validated, those done before, and all, for `progress`

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    keys = torch.arange(len(benchmark.names))  # a greedy search draws nothing: they only tell instances apart
    costs = torch.empty(len(benchmark.names), dtype=torch.float64)
    with instance_errors(benchmark, keys):
        for chunk, solutions in pool.map(benchmark.instances, keys, methods.greedy()):
            index = torch.arange(chunk.start, chunk.stop)
            costs[chunk] = benchmark.true_cost(index, solutions.actions[:, 0])
            check_costs(benchmark, chunk.start, costs[chunk, None], solutions.valid)
            done += chunk.stop - chunk.start
            progress("validation", done, total)
    return costs


def quality_of(problem: Problem, validation: list[Benchmark], each: Tensor) -> Quality:
    """The quality that greedy costs [N] make, NaN where an instance was not looked at."""
    references = torch.cat([benchmark.references for benchmark in validation])
    seen = ~each.isnan()
    sizes = [size_name(problem, benchmark.instances) for benchmark in validation]
    parts = each.split([len(benchmark.names) for benchmark in validation])
    by_size = (
        {size: part[~part.isnan()].mean().item() for size, part in zip(sizes, parts, strict=True)}
        if len(parts) > 1
        else {}
    )
    return Quality(each[seen].mean().item(), gaps_to(references, each).nanmean().item(), by_size, each)
