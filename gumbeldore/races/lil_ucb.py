"""lil'UCB, adapted to a finite population: one reward at a time, of the arm that may be the best [MAB, section 3]."""

from __future__ import annotations

import heapq
import math
from array import array

import torch

from gumbeldore.races.outcome import Outcome, check_task, without_looking
from gumbeldore.races.rewards import Rewards, check_range, look
from gumbeldore.runtime.checked import Limits, check, check_counts


def lil_ucb(
    rewards: Rewards,
    num_arms: int,
    population: int,
    delta: float,
    *,
    reward_range: float,
    generator: torch.Generator,
    batch: int = 1,
    epsilon: float = 0.0,
    beta: float = 0.5,
    stop_ratio: float | None = None,
) -> Outcome:
    """The arm with the highest mean, by upper confidence bounds [Jamieson, Malloy, Nowak & Bubeck 2014, figure 1].

    The next reward is always that of the arm with the highest upper bound. Each arm goes through one random order of
    the indices, which all arms share. An arm whose rewards were all looked at has its exact mean as its bound. The
    search ends when one arm was looked at 1 + stop_ratio times as often as all others together, or when the highest
    bound is an exact mean (of equal ones the arm with the lowest index).

    Nothing is proven of the default values: they are the heuristic of Jamieson et al., section 5. Their theorem 2 needs
    epsilon > 0 and a larger stop_ratio, is about independent rewards, and bounds the error by a function of delta, not
    by delta itself. Also, the bound has log(log((1 + epsilon) T + 2) / delta) instead of
    log(log((1 + epsilon) T) / delta), which does not exist at T = 1.

    Arguments:
        rewards, num_arms, population, delta, generator: as of `Identify`
        reward_range: C, highest minus lowest possible value of one reward, above 0; rewards are C/2-sub-Gaussian
        batch: rewards looked at together, at least 1; with fewer the arms are chosen more carefully, but slower
        epsilon, beta: of the bound (1 + beta)(1 + sqrt(epsilon)) sqrt(2 (C/2)^2 (1 + epsilon) log(...) / T), at least 0
        stop_ratio: lambda > 0; None: 1 + 10 / num_arms

    Raises ValueError as `Identify`, and for rewards that are further apart than `reward_range`.
    """
    check_task(num_arms, population, delta, generator)
    check("reward_range", reward_range, float, Limits(above=0))
    check_counts(batch=batch)
    check("epsilon", epsilon, float, Limits(lowest=0))
    check("beta", beta, float, Limits(lowest=0))
    stop_ratio = 1 + 10 / num_arms if stop_ratio is None else stop_ratio
    check("stop_ratio", stop_ratio, float, Limits(above=0))
    if num_arms == 1:
        return without_looking()
    factor = (1 + beta) * (1 + math.sqrt(epsilon)) * math.sqrt(2 * (1 + epsilon)) * reward_range / 2
    order = torch.randperm(population, generator=generator)
    # Lists and floats: a tensor operation costs as much as all of the others here.
    seen = [array("d") for _ in range(num_arms)]  # the rewards of each arm
    sums, lowest, highest = [0.0] * num_arms, [math.inf] * num_arms, [-math.inf] * num_arms

    def pull(arm: int) -> float:
        """Look at the arm's next rewards; its new upper bound."""
        values = look(rewards, arm, order[len(seen[arm]) : len(seen[arm]) + batch]).tolist()
        seen[arm].extend(values)
        sums[arm] += sum(values)
        lowest[arm], highest[arm] = min(lowest[arm], *values), max(highest[arm], *values)
        check_range(arm, lowest[arm], highest[arm], reward_range)
        count = len(seen[arm])
        if count == population:
            sums[arm] = math.fsum(seen[arm])  # does not depend on the order, so that ties are ties
            return sums[arm] / count
        log_term = math.log(math.log((1 + epsilon) * count + 2) / delta)
        return sums[arm] / count + factor * math.sqrt(log_term / count)

    queue = [(-pull(arm), arm) for arm in range(num_arms)]
    heapq.heapify(queue)
    total = sum(map(len, seen))
    arm = queue[0][1]
    while len(seen[arm]) < population:
        before = len(seen[arm])
        heapq.heapreplace(queue, (-pull(arm), arm))
        total += len(seen[arm]) - before
        if len(seen[arm]) >= 1 + stop_ratio * (total - len(seen[arm])):
            break
        arm = queue[0][1]
    counts = torch.tensor([len(values) for values in seen])
    means = torch.tensor(sums, dtype=torch.float64) / counts
    return Outcome(arm, means, counts, total == num_arms * population)
