"""Racing: all arms are looked at together, and those that fall behind are dropped [MAB, algorithm 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gumbeldore.races.bounds import Bound
from gumbeldore.races.outcome import Outcome, check_task, without_looking
from gumbeldore.races.rewards import Rewards, check_range, look
from gumbeldore.runtime.checked import Checked, at_least, check_counts, positive


@dataclass(frozen=True, kw_only=True)
class RaceSettings(Checked):
    """The arguments of `race` that a user decides.

    Arguments:
        delta: allowed probability of a wrong choice, below 1
        first_batch: instances that every arm is looked at on; then 2, 4, ... times as many, for the arms that are left
    """

    prefix: ClassVar[str] = "race."

    delta: float = positive(0.05)
    first_batch: int = at_least(1, 25)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta >= 1:
            raise ValueError(f"{self.prefix}delta must be below 1, got {self.delta}")


def race(
    rewards: Rewards,
    num_arms: int,
    population: int,
    delta: float,
    *,
    bound: Bound,
    generator: torch.Generator,
    first_batch: int = 50,
    pairwise: bool = True,
) -> Outcome:
    """The arm with the highest mean, with confidence 1 - delta as far as the bound holds.

    The indices are put into one random order. Every iteration looks at more of them for each arm that is left
    (`first_batch`, then twice as many as before, or all if fewer than `first_batch` would be left), and drops the arms
    that are further below the current best than `bound`.
    The race ends with one arm, or when all rewards of those left are looked at: then the best of them wins, of equal
    ones the arm with the lowest index.

    Arguments:
        rewards, num_arms, population, delta, generator: as of `Identify`
        bound: `EmpiricalBernsteinSerfling(reward_range)` or `Normal()`
        first_batch: rewards looked at per arm in the first iteration, at least 1
        pairwise: the deviation is that of the differences to the current best, which is small for correlated arms;
            else it is the sum of the deviations of both arms

    Raises ValueError as `Identify`, and for rewards that are further apart than the bound's `reward_range`.
    """
    check_task(num_arms, population, delta, generator)
    check_counts(first_batch=first_batch)
    if num_arms == 1:
        return without_looking()
    totals = doubled(first_batch, population)
    order = torch.randperm(population, generator=generator)
    arms = torch.arange(num_arms)  # those left [m]
    seen = torch.empty(num_arms, 0, dtype=torch.float64)  # their rewards [m, T]
    means, counts = torch.empty(num_arms, dtype=torch.float64), torch.empty(num_arms, dtype=torch.int64)
    # The best arm is dropped only if its comparison with some other arm goes wrong: one of num_arms - 1.
    share = delta / (num_arms - 1)
    for iteration, total in enumerate(totals):
        new = order[seen.shape[1] : total]
        seen = torch.cat([seen, torch.stack([look(rewards, arm, new) for arm in arms.tolist()])], dim=1)
        if bound.reward_range is not None:
            for arm, lowest, highest in zip(arms.tolist(), *torch.stack(seen.aminmax(dim=1)).tolist(), strict=True):
                check_range(arm, lowest, highest, bound.reward_range)
        means[arms], counts[arms] = _means(seen, whole=total == population), total
        best = int(means[arms].argmax())  # the first of equal ones
        if total < population:
            gap = means[arms[best]] - means[arms]
            left = gap <= bound(deviations(seen, best, pairwise), iteration, totals, share)
            left[best] = True
            best = int(left[:best].sum())
            arms, seen = arms[left], seen[left]
        if len(arms) == 1:
            break
    return Outcome(int(arms[best]), means, counts, bool((counts == population).all()))


def doubled(first: int, population: int) -> tuple[int, ...]:
    """How many rewards of an arm are looked at after each iteration: first, 2 first, 4 first, ..., population.

    None at which fewer than `first` are left: few rewards that were not looked at are not normally distributed in sum,
    and to leave them out saves little.
    """
    totals = []
    total = first
    while population - total >= first:
        totals.append(total)
        total *= 2
    return (*totals, population)


def deviations(seen: Tensor, best: int, pairwise: bool) -> Tensor:
    """Standard deviations [m], divided by T, of the differences between the rewards [m, T] of `best` and of each arm.

    Without `pairwise` an upper limit that does not need the pairs: the deviation of a difference is never more than
    the sum of both deviations, whatever their correlation (Minkowski). So the share of delta is the same for both.
    """
    if pairwise:
        return (seen[best] - seen).std(dim=1, correction=0)
    own = seen.std(dim=1, correction=0)
    return own[best] + own


def _means(seen: Tensor, whole: bool) -> Tensor:
    """Means [m] of rewards [m, T]; those of a whole population do not depend on the order, so that ties are ties."""
    if not whole:
        return seen.mean(dim=1)
    return torch.tensor([math.fsum(row) / len(row) for row in seen.tolist()], dtype=torch.float64)
