"""The bounds of races: against values computed by hand, closed forms, and simulated sampling without replacement.

Simulations use fixed seeds; each would fail a correct bound with probability below 1e-5.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
import torch

from gumbeldore.races.bounds import EmpiricalBernsteinSerfling, Normal, normal_threshold
from gumbeldore.races.racing import doubled
from tests.helpers.populations import generator

DEVIATIONS = torch.tensor([0.0, 0.5], dtype=torch.float64)


def test_empirical_bernstein_serfling_by_hand():
    """Range 3, so 6 of a difference; three iterations before the last share 0.06: log(5 / 0.02) = 5.5215.

    kappa = 7/3 + 3/sqrt(2) = 4.45465. T = 20 of 100: rho = 1 - 19/100 = 0.81; G = s sqrt(2 * 0.81 * 5.5215 / 20)
    + 4.45465 * 6 * 5.5215 / 20 = 0.66876 s + 7.37885. T = 80: rho = 0.2 * (1 + 1/80) = 0.2025; 0.16719 s + 1.84471.
    """
    bound = EmpiricalBernsteinSerfling(reward_range=3.0)
    totals = (20, 40, 80, 100)
    early, late = (bound(DEVIATIONS, iteration, totals, share=0.06) for iteration in (0, 2))
    assert early.tolist() == pytest.approx([7.37885, 7.37885 + 0.66876 / 2], abs=2e-5)
    assert late.tolist() == pytest.approx([1.84471, 1.84471 + 0.16719 / 2], abs=2e-5)
    assert bound(DEVIATIONS, 3, totals, share=0.06).tolist() == [0, 0]  # all were looked at


def test_normal_by_hand():
    """One iteration before the last: B is the quantile of 5%, 1.644854; sqrt((1 - 49/99) / 49) = 0.101526."""
    gaps = Normal()(DEVIATIONS, 0, (50, 100), share=0.05)
    assert gaps.tolist() == pytest.approx([0, 0.5 * 0.101526 * 1.644854], rel=1e-4)
    assert Normal()(DEVIATIONS, 1, (50, 100), share=0.05).tolist() == [0, 0]
    assert Normal()(DEVIATIONS, 0, (1, 2, 4), share=0.05).tolist() == [math.inf, math.inf]  # one reward, no deviation


@pytest.mark.parametrize("totals", [(1, 2, 3), (50, 100, 1000), (50, 100, 200, 1000), (5, 10, 20, 21)])
def test_normal_threshold_against_the_closed_form_at_zero(totals):
    """P(all z <= 0) = 1/4 + asin(r) / (2 pi) for two, 1/8 + (sum of asin(r)) / (4 pi) for three normal variables."""
    population = totals[-1]
    angles = [
        math.asin(math.sqrt(s * (population - t) / (t * (population - s))))
        for i, s in enumerate(totals[:-1])
        for t in totals[i + 1 : -1]
    ]
    below = 1 / 4 + angles[0] / (2 * math.pi) if len(angles) == 1 else 1 / 8 + sum(angles) / (4 * math.pi)
    assert normal_threshold(totals, 1 - below) == pytest.approx(0, abs=1e-8)


def test_normal_threshold_lies_between_one_iteration_and_their_sum():
    totals = doubled(50, 100_000)
    for share in (0.5, 0.05, 1e-3, 1e-6):
        lowest, highest = (-NormalDist().inv_cdf(part) for part in (share, share / (len(totals) - 1)))
        assert lowest + 0.1 < normal_threshold(totals, share) < highest - 1e-4
    assert normal_threshold(totals, 0.01) > normal_threshold(totals, 0.02)


@pytest.mark.parametrize("share", [0.3, 0.05])
def test_normal_threshold_against_simulations(share):
    """How often means of samples without replacement, and variables of their correlations, cross B in any iteration.

    The population is made of normal quantiles; the means of 10 and more of its members are as good as normal.
    """
    totals, trials = (10, 20, 40, 80, 160, 200), 20_000
    limit = normal_threshold(totals, share)
    noise = 4.5 * math.sqrt(share * (1 - share) / trials)  # exceeded with probability 7e-6
    looks = torch.tensor(totals[:-1], dtype=torch.float64)
    odds = looks / (200 - looks)

    steps = torch.randn(trials, 5, dtype=torch.float64, generator=generator("threshold", "normal"))
    walk = (steps * odds.diff(prepend=odds.new_zeros(1)).sqrt()).cumsum(dim=1)  # Brownian motion at the times `odds`
    crossed = (walk / odds.sqrt() > limit).any(dim=1).double().mean()
    assert abs(float(crossed) - share) < noise

    population = torch.special.ndtri((torch.arange(200, dtype=torch.float64) + 0.5) / 200)
    variance = population.var(correction=1)
    order = torch.rand(trials, 200, generator=generator("threshold", "population")).argsort(dim=1)
    means = population[order].cumsum(dim=1)[:, looks.long() - 1] / looks
    z = means / (variance * (1 / looks - 1 / 200)).sqrt()
    crossed = (z > limit).any(dim=1).double().mean()
    assert abs(float(crossed) - share) < noise + 0.003  # normal up to 0.003


def test_normal_bound_is_the_deviation_of_a_sample_without_replacement():
    """The bound divided by B is the deviation of the mean, as found in 20,000 samples."""
    population = torch.rand(60, dtype=torch.float64, generator=generator("deviation"))
    order = torch.rand(20_000, 60, generator=generator("samples")).argsort(dim=1)[:, :40]
    samples = population[order]
    scale = Normal()(samples.std(dim=1, correction=0), 0, (40, 60), share=0.05) / normal_threshold((40, 60), 0.05)
    # A deviation estimated from 20,000 means is wrong by 1 / sqrt(40,000) = 0.5%. The bound is too careful by 1.2%:
    # sqrt(21 / 59) instead of sqrt(20 / 60), a correction that belongs to a variance divided by N, not by N - 1.
    assert float(samples.mean(dim=1).std() / scale.mean()) == pytest.approx(1, abs=0.045)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", True])
def test_a_wrong_range_is_refused(value):
    with pytest.raises(ValueError, match="reward_range must be a number above 0, got"):
        EmpiricalBernsteinSerfling(value)
