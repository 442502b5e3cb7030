"""What sampled solutions of an instance set cost on the instances as their files give them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from gumbeldore.sampler.solutions import SearchStats, Solutions, cheapest, solutions_at


class SampledSolutions(NamedTuple):
    """What an evaluation needs of a search's solutions."""

    actions: Tensor  # [B, L, T]
    valid: Tensor  # [B, L]
    stats: SearchStats

    @classmethod
    def of(cls, solutions: Solutions) -> SampledSolutions:
        return cls(solutions.actions, solutions.valid, solutions.stats)


class TrueBest(NamedTuple):
    """The best solutions of n instances by their true costs."""

    actions: Tensor  # [n, T]
    costs: Tensor  # [n] float64
    found: Tensor  # [n] int64 solutions sampled per instance
    samples: Tensor  # [n, L] float32 true costs of these in the order they were found, then NaN


def true_costs(instance_set: InstanceSet, chunk: slice, sampled: SampledSolutions) -> Tensor:
    """Of all solutions of a chunk of an instance set, [B, L] float64.

    Raises ValueError naming an instance of which a solution's true cost is not a number.
    """
    costs = instance_set.costs(sampled.actions, chunk.start)
    wrong = sampled.valid & ~costs.isfinite()
    if wrong.any():
        row, place = wrong.nonzero()[0].tolist()
        raise ValueError(f"instance {instance_set.names[chunk.start + row]}: a solution costs {costs[row, place]}")
    return costs


def best_solutions(instance_set: InstanceSet, chunk: slice, sampled: SampledSolutions) -> TrueBest:
    """The best solutions of a chunk of an instance set, adjusted; of equally good ones, the first that was found.

    Raises ValueError naming an instance of which a solution's true cost is not a number.
    """
    sampled = sampled._replace(actions=instance_set.adjust(sampled.actions, chunk.start))
    costs = true_costs(instance_set, chunk, sampled)
    cost, place = cheapest(costs, sampled.valid)
    found = sampled.valid.sum(dim=1)
    # Of an instance without further solutions some places of a round are empty: those found move up.
    order = (~sampled.valid).to(torch.uint8).argsort(dim=1, stable=True)
    samples = costs.masked_fill(~sampled.valid, math.nan).gather(1, order)[:, : int(found.max())].float()
    return TrueBest(solutions_at(place, sampled.actions), cost, found, samples)
