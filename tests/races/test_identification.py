"""What all algorithms promise: the best arm with an error of at most delta, few rewards, exactness, clear errors.

Statistical tests use fixed seeds; each would fail a correct algorithm with probability below 2e-6.
"""

from __future__ import annotations

from functools import partial

import pytest
import torch

from gumbeldore.races.bounds import EmpiricalBernsteinSerfling, Normal
from gumbeldore.races.lil_ucb import lil_ucb
from gumbeldore.races.racing import race
from tests.helpers.populations import Recorded, drawn, generator, spread, with_means
from tests.helpers.statistics import binomial_limit

ALGORITHMS = {
    "bernstein": lambda reward_range: partial(race, bound=EmpiricalBernsteinSerfling(reward_range)),
    "normal": lambda reward_range: partial(race, bound=Normal()),
    "marginal": lambda reward_range: partial(race, bound=Normal(), pairwise=False),
    "lil": lambda reward_range: partial(lil_ucb, reward_range=reward_range, batch=25),
}
KINDS = ["normal", "uniform", "lognormal"]

all_algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)


def test_few_rewards_that_are_left_decide_nothing_unseen():
    """Of differences that are mostly alike, as those of gaps, one is decisive, and may be among the last."""
    trials, wrong = 200, 0
    for trial in range(trials):
        random = generator("few left", trial)
        rare = torch.rand(2, 30, generator=random) < 0.1
        table = with_means(torch.where(rare, -1.0, 0.0).double(), [0, 1e-9])
        outcome = race(Recorded(table), 2, 30, 0.05, bound=Normal(), generator=random, first_batch=25)
        wrong += outcome.arm != 1
    assert wrong <= binomial_limit(trials, 0.05)


@all_algorithms
@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_at_most_delta(algorithm, kind):
    """On populations whose best arm is hardly better than the others: nothing is harder."""
    delta, trials, wrong = 0.2, 100, 0
    for trial in range(trials):
        random = generator("error", kind, trial)
        table = with_means(drawn(kind, (5, 400), random), [0, 0, 0, 1e-9, 0])
        outcome = algorithm(spread(table))(Recorded(table), 5, 400, delta, generator=random)
        wrong += outcome.arm != 3
    assert wrong <= binomial_limit(trials, delta)


def test_the_normal_bound_uses_up_its_delta():
    """With two arms one comparison has all of delta, and the bound is exact: the error is delta, no more and no less.

    If each of the five iterations had all of delta, the error would be 0.4.
    """
    delta, trials, wrong = 0.2, 1000, 0
    for trial in range(trials):
        random = generator("sharp", trial)
        table = with_means(drawn("normal", (2, 1200), random), [0, 1e-9])
        wrong += race(Recorded(table), 2, 1200, delta, bound=Normal(), generator=random).arm != 1
    assert trials - binomial_limit(trials, 0.85) <= wrong <= binomial_limit(trials, delta)


@all_algorithms
@pytest.mark.parametrize("kind", KINDS)
def test_few_rewards_are_looked_at_where_arms_differ(algorithm, kind):
    random = generator("easy", kind)
    table = with_means(drawn(kind, (6, 20_000), random), [0, 0.2, 2, -1, -2, 0])
    rewards = Recorded(table)
    outcome = algorithm(spread(table))(rewards, 6, 20_000, 0.05, generator=random)
    assert outcome.arm == 2 and not outcome.exact
    assert outcome.total == int(rewards.looked_at.sum()) < 0.15 * table.numel()
    assert torch.equal(outcome.counts, rewards.looked_at.sum(dim=1)) and outcome.counts.dtype == torch.int64
    seen = [table[arm, rewards.looked_at[arm]].mean() for arm in range(6)]
    torch.testing.assert_close(outcome.means, torch.stack(seen), rtol=0, atol=1e-12)


@all_algorithms
def test_a_look_at_everything_is_exact(algorithm):
    for trial in range(20):
        random = generator("exact", trial)
        table = with_means(drawn("normal", (4, 120), random), [0, 1e-9, -1e-9, 0])[torch.randperm(4, generator=random)]
        outcome = algorithm(spread(table))(Recorded(table), 4, 120, 1e-12, generator=random)
        assert outcome.exact and outcome.counts.tolist() == [120] * 4 and outcome.total == 480
        assert outcome.arm == int(table.mean(dim=1).argmax())
        torch.testing.assert_close(outcome.means, table.mean(dim=1), rtol=0, atol=1e-13)


@all_algorithms
def test_of_equal_arms_the_first_wins(algorithm):
    """Though their rewards come in another order, and 0.1 + 0.2 + 0.3 depends on it."""
    for trial in range(20):
        random = generator("ties", trial)
        values = drawn("normal", (60,), random)
        worse = values - 1e-6
        tied = torch.stack([worse, *(values[torch.randperm(60, generator=random)] for _ in range(3)), worse])
        outcome = algorithm(spread(tied))(Recorded(tied), 5, 60, 1e-12, generator=random)
        assert outcome.arm == 1


@all_algorithms
def test_one_arm_is_not_looked_at(algorithm):
    outcome = algorithm(1.0)(Recorded(torch.zeros(0, 0)), 1, 10, 0.1, generator=generator())
    assert outcome.arm == 0 and outcome.total == 0 and outcome.counts.tolist() == [0] and outcome.exact
    assert outcome.means.isnan().tolist() == [True]


@all_algorithms
@pytest.mark.parametrize("population", [1, 7, 50])
def test_populations_no_larger_than_the_first_batch(algorithm, population):
    table = torch.arange(3 * population).reshape(3, population) % 7  # integers count as rewards, too
    table[1] += 1
    outcome = algorithm(8.0)(Recorded(table), 3, population, 0.1, generator=generator())
    assert outcome.arm == int(table.double().mean(dim=1).argmax())
    if population == 1:
        assert outcome.exact and outcome.counts.tolist() == [1, 1, 1]


@all_algorithms
def test_the_same_generator_gives_the_same_outcome(algorithm):
    table = with_means(drawn("uniform", (4, 4000), generator("repeated")), [0, 2, 0, 0])
    first, second, other = (
        algorithm(spread(table))(Recorded(table), 4, 4000, 0.2, generator=generator("order", seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(first.means, second.means) and torch.equal(first.counts, second.counts)
    assert not torch.equal(first.means, other.means)


WRONG = [  # for all algorithms
    ({"delta": 0}, "delta must be a number between 0 and 1, both excluded, got 0"),
    ({"delta": 1.0}, "delta must be a number between 0 and 1, both excluded, got 1.0"),
    ({"num_arms": 0}, "num_arms must be an integer of at least 1, got 0"),
    ({"population": 0}, "population must be an integer of at least 1, got 0"),
    ({"generator": None}, "generator must be a torch.Generator of the CPU, got None"),
]


@pytest.mark.parametrize(
    ("algorithm", "change", "message"),
    [
        *((algorithm(1.0), *wrong) for algorithm in ALGORITHMS.values() for wrong in WRONG),
        (partial(race, bound=Normal(), first_batch=0), {}, "first_batch must be an integer of at least 1, got 0"),
        (partial(lil_ucb, reward_range=0), {}, "reward_range must be a number above 0, got 0"),
        (partial(lil_ucb, reward_range=1, batch=0), {}, "batch must be an integer of at least 1, got 0"),
        (partial(lil_ucb, reward_range=1, epsilon=-0.1), {}, "epsilon must be a number of at least 0, got -0.1"),
        (partial(lil_ucb, reward_range=1, beta=-1), {}, "beta must be a number of at least 0, got -1"),
        (partial(lil_ucb, reward_range=1, stop_ratio=0), {}, "stop_ratio must be a number above 0, got 0"),
    ],
)
def test_wrong_arguments_are_refused(algorithm, change, message):
    arguments = {"num_arms": 2, "population": 10, "delta": 0.1, "generator": generator()} | change
    with pytest.raises(ValueError) as error:
        algorithm(Recorded(torch.zeros(2, 10)), **arguments)
    assert str(error.value) == message


@all_algorithms
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_a_reward_that_is_not_finite_is_named(algorithm, value):
    table = torch.zeros(3, 40)
    table[1, 17] = float(value)
    with pytest.raises(ValueError, match=f"the reward of arm 1 at index 17 must be finite, got {value}"):
        algorithm(1.0)(Recorded(table), 3, 40, 0.1, generator=generator())


@all_algorithms
@pytest.mark.parametrize(
    ("wrong", "got"), [(lambda arm, i: i[:, None], r"shape \[\d+, 1\]"), (lambda arm, i: i.tolist(), "list")]
)
def test_rewards_of_another_shape_are_refused(algorithm, wrong, got):
    with pytest.raises(ValueError, match=rf"rewards must return a tensor of shape \[\d+\] for arm 0, got {got}"):
        algorithm(1.0)(wrong, 3, 40, 0.1, generator=generator())


@pytest.mark.parametrize("algorithm", [ALGORITHMS["bernstein"], ALGORITHMS["lil"]])
def test_rewards_beyond_the_range_are_refused(algorithm):
    """They would make the guarantee void."""
    table = torch.tensor([[0.0, 1.0], [2.0, 3.5]])
    with pytest.raises(ValueError, match="got 1.0: those of arm 1 reach from 2.0 to 3.5"):
        algorithm(1.0)(Recorded(table), 2, 2, 0.1, generator=generator())
    assert algorithm(1.5)(Recorded(table), 2, 2, 0.1, generator=generator()).arm == 1
