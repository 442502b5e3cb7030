"""Greedy quality on a fixed set of instances, by which a new policy is accepted."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gumbeldore import methods
from gumbeldore.faults import check_costs, named
from gumbeldore.interfaces import Benchmark, Problem, take
from gumbeldore.seeding import generator
from gumbeldore.stopping import Progress
from gumbeldore.workers import SearchPool


def validation_set(problem: Problem, n: int, seed: int) -> Benchmark:
    """The problem's own validation set, or n random instances that only the seed decides."""
    if hasattr(problem, "validation"):
        return problem.validation(n)
    instances = problem.generate(n, generator(seed, "validation"))

    def true_cost(index: Tensor, actions: Tensor) -> Tensor:
        return problem.cost(take(instances, index), actions).double()

    names = [f"validation/{i}" for i in range(n)]
    return Benchmark(names, instances, None, true_cost, torch.full((n,), math.nan, dtype=torch.float64), [""] * n)


def validate(pool: SearchPool, validation: Benchmark, progress: Progress) -> tuple[float, float]:
    """Mean true cost of the pool's policy, greedily, and its mean gap where there are references (or NaN).

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    count = len(validation.names)
    keys = torch.arange(count)  # a greedy search draws nothing: they only tell instances apart
    costs = torch.empty(count, dtype=torch.float64)
    done = 0
    with named(validation, keys):
        for chunk, solutions in pool.map(validation.instances, keys, methods.greedy()):
            costs[chunk] = validation.true_cost(torch.arange(chunk.start, chunk.stop), solutions.actions[:, 0])
            check_costs(validation, chunk.start, costs[chunk, None], solutions.valid)
            done += chunk.stop - chunk.start
            progress("validation", done, count)
    return costs.mean().item(), (costs / validation.references - 1).nanmean().item()
