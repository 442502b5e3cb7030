"""How far apart the means of two arms must be for a race to drop the lower one [MAB, section 3].

A race compares each arm with the best arm. One comparison is made again in every iteration; it may go wrong in any of
them with probability `share` at most. What is compared is the mean difference of two rewards at the same indices.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor

from gumbeldore.runtime.checked import Limits, check

KAPPA = 7 / 3 + 3 / math.sqrt(2)
LOWEST = -10.0  # a standard normal variable is below with probability 8e-24
NODES = 96  # of the quadrature


class Bound(Protocol):
    """Gaps [m] that a true difference of 0 or less exceeds in any iteration with probability at most `share`.

    Arguments:
        deviation: standard deviations [m] of the differences looked at, divided by T (not T - 1)
        iteration: which one this is, from 0; T = totals[iteration] differences have been looked at
        totals: T of every iteration; the last is the population N, where nothing is left to chance
        share: the probability that one comparison may go wrong with, over all iterations
    """

    @property
    def reward_range(self) -> float | None:
        """Highest minus lowest of one arm's rewards, which the bound relies on; None: it relies on none."""

    def __call__(self, deviation: Tensor, iteration: int, totals: tuple[int, ...], share: float) -> Tensor: ...


@dataclass(frozen=True)
class EmpiricalBernsteinSerfling:
    """A bound that holds for every population of bounded rewards [MAB, eq. 9-11; Bardenet & Maillard 2015].

    Arguments:
        reward_range: C, highest minus lowest possible value of ONE reward, above 0; the difference of two rewards,
            which the bound is about, has a range of 2 C
    """

    reward_range: float

    def __post_init__(self) -> None:
        check("reward_range", self.reward_range, float, Limits(above=0))

    def __call__(self, deviation: Tensor, iteration: int, totals: tuple[int, ...], share: float) -> Tensor:
        looked_at, population = totals[iteration], totals[-1]
        if looked_at == population:
            return torch.zeros_like(deviation)
        # Iterations have nothing in common here: each gets its part of the share, but the last, which cannot be wrong.
        log_term = math.log(5 * (len(totals) - 1) / share)
        if looked_at <= population / 2:
            rho = 1 - (looked_at - 1) / population
        else:
            rho = (1 - looked_at / population) * (1 + 1 / looked_at)
        spread = deviation * math.sqrt(2 * rho * log_term / looked_at)
        return spread + KAPPA * (2 * self.reward_range) * log_term / looked_at


@dataclass(frozen=True)
class Normal:
    """A tighter bound that takes means for normally distributed [MAB, eq. 12-13].

    That is true in the limit of many rewards alone, of those looked at and of those left: with skewed rewards, or a
    small first batch, the error may exceed delta. It needs no range of the rewards.
    """

    @property
    def reward_range(self) -> None:
        return None

    def __call__(self, deviation: Tensor, iteration: int, totals: tuple[int, ...], share: float) -> Tensor:
        looked_at, population = totals[iteration], totals[-1]
        if looked_at == population:
            return torch.zeros_like(deviation)
        if looked_at == 1:
            return torch.full_like(deviation, math.inf)  # one reward says nothing of the deviation
        # T - 1 instead of T makes the deviation that of the population, on average.
        scale = math.sqrt((1 - (looked_at - 1) / (population - 1)) / (looked_at - 1))
        return deviation * (scale * normal_threshold(totals, share))


@functools.lru_cache(maxsize=1024)
def normal_threshold(totals: tuple[int, ...], share: float) -> float:
    """B with P(max_t z_t > B) = share over all iterations t but the last [MAB, eq. 13].

    Arguments:
        totals: rewards looked at after each iteration, each at least twice the one before (but the last); at least two
        share: in (0, 1)
    """
    correlations = _correlations(totals)
    # One iteration alone crosses its quantile with probability `share`; all of them no more often than their sum.
    below = -NormalDist().inv_cdf(share)
    above = -NormalDist().inv_cdf(share / (len(totals) - 1))
    while above - below > 1e-10:
        middle = (below + above) / 2
        below, above = (middle, above) if _crossing(middle, correlations) > share else (below, middle)
    return above


def _correlations(totals: tuple[int, ...]) -> list[float]:
    """Correlation of the standardised means of neighbouring iterations, the last left out [MAB, eq. 13]."""
    population = totals[-1]
    pairs = zip(totals[:-2], totals[1:-1], strict=True)
    return [math.sqrt(s * (population - t) / (t * (population - s))) for s, t in pairs]


def _crossing(limit: float, correlations: list[float]) -> float:
    """P(max_t z_t > limit) of a Markov chain of standard normal variables.

    corr(z_s, z_t) = a_s / a_t with a = sqrt(pi / (1 - pi)), pi = T / N: the correlation of distant iterations is the
    product of those between, so z is a Markov chain (a Brownian motion over the root of its time). The recursion is
    over the density of z_t on the quadrature's nodes, of those paths that have stayed below the limit.
    """
    nodes, weights = map(torch.from_numpy, leggauss(NODES))  # for integrals over [-1, 1]
    half = (limit - LOWEST) / 2
    z, weights = LOWEST + half * (1 + nodes), half * weights
    mass = weights * torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    crossed = NormalDist().cdf(-limit)
    for r in correlations:
        spread = math.sqrt(1 - r**2)
        # Added up over iterations, not subtracted from 1: so even a probability of 1e-15 is accurate.
        crossed += float(mass @ torch.special.ndtr((r * z - limit) / spread))
        step = torch.exp(-(((z[:, None] - r * z) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
        mass = weights * (step @ mass)
    return crossed
