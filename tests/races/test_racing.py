"""Racing: what it asks of its bound, how far it looks, and what makes it need less; lil'UCB beside its pseudocode."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.races.bounds import EmpiricalBernsteinSerfling, Normal
from gumbeldore.races.lil_ucb import lil_ucb
from gumbeldore.races.racing import deviations, doubled, race
from gumbeldore.races.rewards import with_control
from tests.helpers.populations import Recorded, drawn, generator, spread, with_means


class Fixed:
    """A bound that always gives the same gap and remembers what it was asked."""

    reward_range = None

    def __init__(self, gap: float):
        self.gap = gap
        self.asked = []

    def __call__(self, deviation, iteration, totals, share):
        self.asked.append((deviation, iteration, totals, share))
        return torch.full_like(deviation, self.gap)


@pytest.mark.parametrize(
    ("first", "population", "totals"),
    [
        (50, 400, (50, 100, 200, 400)),
        (50, 401, (50, 100, 200, 401)),
        (50, 450, (50, 100, 200, 400, 450)),
        (50, 50, (50,)),
        (50, 3, (3,)),
    ],
)
def test_doubled(first, population, totals):
    assert doubled(first, population) == totals


def test_delta_is_shared_by_the_comparisons_and_arms_are_dropped_below_the_gap():
    """Constant rewards: every gap is known. The best is arm 2; arms further below than 0.5 go at once."""
    table = torch.tensor([0.5, 0.0, 1.0, 0.25, 0.75], dtype=torch.float64)[:, None].expand(5, 200)
    bound = Fixed(0.5)
    outcome = race(Recorded(table), 5, 200, 0.1, bound=bound, generator=generator(), first_batch=60)
    assert outcome.arm == 2 and outcome.counts.tolist() == [200, 60, 200, 60, 200]
    assert outcome.means.tolist() == table[:, 0].tolist() and not outcome.exact
    assert [len(asked[0]) for asked in bound.asked] == [5, 3]  # the last iteration is exact
    assert [asked[1:] for asked in bound.asked] == [(i, (60, 120, 200), 0.1 / 4) for i in (0, 1)]


def test_deviations_by_hand():
    """Differences to the first: 0, 0; -1, 1; 3, 1. Own deviations: 1, 2 and 0."""
    seen = torch.tensor([[1.0, 3.0], [2.0, 2.0], [-2.0, 2.0]], dtype=torch.float64)
    assert deviations(seen, 0, pairwise=True).tolist() == [0, 1, 1]
    assert deviations(seen, 0, pairwise=False).tolist() == [2, 1, 3]


def compared(table, **options):
    """The outcomes of a race with each of the bounds."""
    num_arms, population = table.shape
    bounds = EmpiricalBernsteinSerfling(spread(table)), Normal()
    return [
        race(Recorded(table), num_arms, population, 0.05, bound=bound, generator=generator("compared"), **options)
        for bound in bounds
    ]


def test_pairs_need_fewer_rewards_of_correlated_arms():
    random = generator("correlated")
    common, own = drawn("uniform", (1, 20_000), random), drawn("uniform", (4, 20_000), random)
    table = with_means(common + 0.1 * own, [0, 0.1, 0.05, 0])
    for pairwise, marginal in zip(compared(table), compared(table, pairwise=False), strict=True):
        assert pairwise.arm == marginal.arm == 1
        assert pairwise.total < 0.7 * marginal.total


def test_control_variates_need_fewer_rewards():
    """The control explains nearly all of the rewards; each arm has another, so pairs alone do not help."""
    random = generator("control")
    cheap = drawn("uniform", (4, 20_000), random)
    table = with_means(cheap + 0.1 * drawn("uniform", (4, 20_000), random), [0, 0.1, 0.05, 0])
    rewards = Recorded(table)
    controlled = with_control(rewards, lambda arm, indices: cheap[arm, indices], cheap.mean(dim=1))
    everything = torch.stack([with_control(lambda a, i: table[a, i], lambda a, i: cheap[a, i], cheap.mean(dim=1))(
        arm, torch.arange(20_000)) for arm in range(4)])  # fmt: skip
    torch.testing.assert_close(everything.mean(dim=1), table.mean(dim=1), rtol=0, atol=1e-12)
    plain = compared(table)[1]
    outcome = race(controlled, 4, 20_000, 0.05, bound=Normal(), generator=generator("compared"))
    assert outcome.arm == plain.arm == 1
    assert outcome.total == int(rewards.looked_at.sum()) < 0.2 * plain.total


@pytest.mark.parametrize("means", [torch.tensor(0.0), torch.tensor([0.0, float("nan")])])
def test_wrong_means_of_a_control_are_refused(means):
    with pytest.raises(ValueError, match="control_means must be one finite number per arm"):
        with_control(lambda arm, indices: indices, lambda arm, indices: indices, means)


def slow_lil_ucb(table, order, delta, reward_range, epsilon, beta, stop_ratio):
    """Figure 1 of Jamieson et al. (2014) with our changes: bounds recomputed from all rewards in every step."""
    num_arms, population = table.shape
    counts = [1] * num_arms

    def bound(arm):
        mean = table[arm, order[: counts[arm]]].mean().item()
        if counts[arm] == population:
            return mean
        sigma, t = reward_range / 2, counts[arm]
        inner = math.log(math.log((1 + epsilon) * t + 2) / delta)
        return mean + (1 + beta) * (1 + epsilon**0.5) * math.sqrt(2 * sigma**2 * (1 + epsilon) * inner / t)

    while True:
        for arm in range(num_arms):
            if counts[arm] >= 1 + stop_ratio * sum(counts[:arm] + counts[arm + 1 :]):
                return arm, counts
        arm = max(range(num_arms), key=bound)
        if counts[arm] == population:
            return arm, counts
        counts[arm] += 1


@pytest.mark.parametrize(
    ("gap", "delta", "options"),
    [
        (1.5, 0.1, {}),
        (0.05, 0.1, {}),
        (1.5, 0.01, {"epsilon": 0.2, "beta": 1.0, "stop_ratio": 3.0}),
        (3.0, 0.3, {"stop_ratio": 2.0}),
    ],
)
def test_it_is_its_pseudocode(gap, delta, options):
    table = with_means(drawn("uniform", (3, 150), generator("lil")), [0, gap, 0])
    order = torch.randperm(150, generator=generator("order"))
    values = {"epsilon": 0.0, "beta": 0.5, "stop_ratio": 1 + 10 / 3} | options
    outcome = lil_ucb(
        Recorded(table), 3, 150, delta, reward_range=spread(table), generator=generator("order"), **options
    )
    arm, counts = slow_lil_ucb(table, order, delta, spread(table), **values)
    assert outcome.arm == arm and outcome.counts.tolist() == counts


def test_a_batch_may_be_larger_than_what_is_left():
    table = with_means(drawn("uniform", (2, 100), generator("lil")), [0, 1e-3])
    outcome = lil_ucb(Recorded(table), 2, 100, 0.05, reward_range=spread(table), generator=generator(), batch=64)
    assert outcome.counts.tolist() == [100, 100] and outcome.exact and outcome.arm == 1
