"""Samples from a small domain have the right distribution; up to delta, where not all factors are looked at.

Statistical tests use fixed seeds; each would fail a correct sampler with probability below 4e-6.
"""

from __future__ import annotations

import collections
from functools import partial

import pytest
import torch

from gumbeldore.races.bounds import Normal
from gumbeldore.races.discrete_sampling import sample_discrete
from gumbeldore.races.lil_ucb import lil_ucb
from gumbeldore.races.racing import race
from tests.helpers.populations import drawn, generator, spread, with_means
from tests.helpers.statistics import assert_frequencies


def factors(num_factors, deviation=1.0):
    """Log-factors [4, N] of a distribution with probabilities 0.4, 0.3, 0.2, 0.1."""
    means = torch.tensor([0.4, 0.3, 0.2, 0.1]).log() / num_factors
    return with_means(deviation * drawn("uniform", (4, num_factors), generator("factors")), means.tolist())


PROBABILITIES = {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}


def sampled(table, delta, identify, trials):
    counts, total = collections.Counter(), 0
    for trial in range(trials):
        outcome = sample_discrete(
            lambda state, indices: table[state, indices],
            *table.shape,
            delta,
            identify=identify,
            generator=generator("sample", trial),
        )
        counts[outcome.arm] += 1
        total += outcome.total
    return counts, total / (trials * table.numel())


@pytest.mark.parametrize("algorithm", ["race", "lil"])
def test_samples_are_exact_where_everything_is_looked_at(algorithm):
    table = factors(40)
    lil = partial(lil_ucb, reward_range=spread(table), batch=40)
    identify = {"race": partial(race, bound=Normal()), "lil": lil}[algorithm]
    counts, _ = sampled(table, 1e-12, identify, trials=2000)
    assert_frequencies(counts, PROBABILITIES, 2000)


def test_samples_of_other_precision_are_exact_too():
    """In float32 a Gumbel's part of one factor is less than the rounding of factors of size 1,000,000."""
    table = factors(40).float() + 1e6
    sums = table.double().sum(dim=1)
    counts, _ = sampled(table, 0.1, partial(race, bound=Normal()), trials=1000)
    assert_frequencies(counts, dict(enumerate(sums.softmax(dim=0).tolist())), 1000)


def test_the_total_variation_is_at_most_delta():
    """In 1,500 samples the frequency of a set of states is wrong by 0.065 with probability 5e-7 (5 deviations)."""
    delta, table = 0.1, factors(1000, deviation=0.01)
    counts, share = sampled(table, delta, partial(race, bound=Normal(), first_batch=50), trials=1500)
    distance = sum(abs(counts[state] / 1500 - p) for state, p in PROBABILITIES.items()) / 2
    assert distance <= delta + 0.065 and share < 0.6
