"""lil'UCB against a slow version of its pseudocode."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.races.lil_ucb import lil_ucb
from tests.helpers.populations import Recorded, drawn, generator, spread, with_means


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
