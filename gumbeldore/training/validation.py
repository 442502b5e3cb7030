"""Greedy quality on a fixed set of instances, by which a new policy is accepted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet, checked, count_of, mean_gap
from gumbeldore.interfaces import Policy, Problem, size_name
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.runtime.stopping import Progress
from gumbeldore.sampler import methods
from gumbeldore.training.true_costs import SampledSolutions, true_costs


class Quality(NamedTuple):
    """Greedy quality of a policy on the validation set."""

    cost: float  # mean over all instances
    gap: float  # mean gap of those that have a reference; NaN if none has
    costs: dict[str, float]  # mean cost of the instances of each size; empty where there is one size alone


def validation_set(problem: Problem, n: int, seed: int) -> list[InstanceSet]:
    """The problem's validation set, checked."""
    return checked(problem.validation(n, seed), f"{type(problem).__name__}.validation")


def validate(pool: SearchPool, policy: Policy, validation: list[InstanceSet], progress: Progress) -> Quality:
    """How good a policy is, greedily; the pool has its weights from then on.

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    pool.load(policy.state_dict())
    total, done, found = count_of(validation), 0, []
    for instance_set in validation:
        keys = torch.arange(len(instance_set.names))  # a greedy search draws nothing: they only tell instances apart
        costs = torch.empty(len(instance_set.names), dtype=torch.float64)
        with instance_errors(instance_set, keys):
            chunks = pool.map_all(instance_set.instances, keys, [methods.Greedy()], read=SampledSolutions.of)
            for _, chunk, sampled in chunks:
                costs[chunk] = true_costs(instance_set, chunk, sampled)[:, 0]
                done += chunk.stop - chunk.start
                progress("validation", done, total)
        found.append(costs)
    return quality_of(pool.problem, validation, found)


def quality_of(problem: Problem, validation: list[InstanceSet], found: list[Tensor]) -> Quality:
    """The quality that greedy costs make: `found` has those [n] of each InstanceSet."""
    sizes = [size_name(problem, instance_set.instances) for instance_set in validation]
    by_size = {size: mine.mean().item() for size, mine in zip(sizes, found, strict=True)} if len(found) > 1 else {}
    return Quality(torch.cat(found).mean().item(), mean_gap(validation, found), by_size)
