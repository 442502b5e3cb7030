"""Pictures of the same instances solved by several policies and by sampling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import fold

COUNT = 4  # instances shown


def solutions_of(
    problem: Problem,
    pool: SearchPool,
    validation: InstanceSet,
    policies: dict[str, dict[str, Tensor]],
    search: Method,
    seed: int,
) -> Any:
    """A figure of some validation instances: each policy's greedy solution, and the best the last one samples.

    None if the problem draws no pictures (`render`).

    Arguments:
        validation: instances of one size
        policies: weights by their title
    """
    index = torch.arange(min(COUNT, len(validation.names)))
    instances = take(validation.instances, index)
    keys = fold(seed, "pictures", index)
    actions: list[Tensor] = []
    titles: list[str] = []

    def solve(name: str, method: Method) -> None:
        chunks = sorted(pool.map(instances, keys, method), key=lambda chunk: chunk[0].start)
        found = torch.cat([solutions.best()[0] for _, solutions in chunks])
        costs = validation.true_cost(index, found)
        actions.append(found)
        titles.extend(f"{name}: {cost:.3f}" for cost in costs.tolist())

    for name, weights in policies.items():
        pool.load(weights)
        solve(name, methods.Greedy())
    solve("best sampled", search)
    everything = type(instances)(*(field.repeat(len(actions), *[1] * (field.dim() - 1)) for field in instances))
    return problem.reports.render(everything, torch.cat(actions), titles)
