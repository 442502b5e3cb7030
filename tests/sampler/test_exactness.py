"""The sampler draws exactly what it claims to draw: frequencies on enumerable trees with leaves of unequal depth.

Statistical tests use fixed seeds; each would fail a correct sampler with probability below 4e-6.
"""

from __future__ import annotations

import collections
import itertools
import math

import pytest
import torch

from gumbeldore.interfaces import Problem
from gumbeldore.sampler import methods
from gumbeldore.sampler.estimators import estimate_by_beam, estimate_expectation, estimate_over_rounds, monte_carlo
from gumbeldore.sampler.search import search
from tests.helpers.statistics import assert_frequencies
from tests.helpers.trees import TablePolicy, TreeProblem, copies, enumerate_leaves, small_tree

TRIALS = 40_000
PROBLEM, POLICY = TreeProblem(), TablePolicy()


def run(trees, config, seed=0, trials=TRIALS):
    return search(PROBLEM, POLICY, copies(trees, trials), config, torch.Generator().manual_seed(seed))


def ordered_samples(solutions) -> collections.Counter:
    """How often each ordered sequence of leaves came out."""
    actions, valid = solutions.actions.tolist(), solutions.valid.tolist()
    return collections.Counter(
        tuple(tuple(a) for a, ok in zip(row, oks, strict=True) if ok) for row, oks in zip(actions, valid, strict=True)
    )


def without_replacement_probabilities(leaves, size) -> dict:
    """P(s1..sm) = prod_i p(s_i) / (1 - sum_{j<i} p(s_j)) over all ordered samples of `size` leaves."""
    probabilities = {}
    for sample in itertools.permutations(leaves, min(size, len(leaves))):
        value, left = 1.0, 1.0
        for leaf in sample:
            value *= leaf.probability / left
            left -= leaf.probability
        probabilities[tuple(leaf.actions for leaf in sample)] = value
    return probabilities


@pytest.mark.parametrize(
    ("width", "rounds"), [(1, 3), (2, 1), (2, 2), (3, 1), (1, 4), (2, 3), (8, 1), (1, 7), (3, 3), (8, 2)]
)
def test_ordered_samples_follow_the_product_formula(width, rounds):
    trees = small_tree(leaves=5)
    leaves = enumerate_leaves(trees, 0)
    solutions = run(trees, methods.WithoutReplacement(width, rounds))
    expected = min(width * rounds, len(leaves))
    assert (solutions.valid.sum(dim=1) == expected).all()  # all until exhaustion, then nothing more
    probabilities = without_replacement_probabilities(leaves, expected)
    assert_frequencies(ordered_samples(solutions), probabilities, TRIALS)


@pytest.mark.parametrize(
    "method", [methods.WithoutReplacement(3, 4), methods.Gumbeldore(3, 4, 0.7), methods.Theory(3, 4, 0.7)]
)
def test_exhaustion_returns_every_leaf_once(method):
    trees = PROBLEM.generate(200, torch.Generator().manual_seed(3))
    solutions = search(PROBLEM, POLICY, trees, method, torch.Generator().manual_seed(4))
    for row in range(200):
        leaves = {leaf.actions: leaf for leaf in enumerate_leaves(trees, row)}
        found = [tuple(a) for a in solutions.actions[row][solutions.valid[row]].tolist()]
        assert len(found) == len(set(found)) == min(12, len(leaves))
        assert set(found) <= set(leaves)
        for actions, log_prob, cost in zip(
            found,
            solutions.log_probs[row][solutions.valid[row]],
            solutions.costs[row][solutions.valid[row]],
            strict=True,
        ):
            assert math.isclose(log_prob.exp().item(), leaves[actions].probability, rel_tol=1e-9)
            assert cost.item() == -leaves[actions].outcome


def test_sampling_with_replacement_matches_the_policy():
    trees = small_tree(leaves=5)
    solutions = run(trees, methods.Sampling(2, 3), trials=10_000)
    leaves = {(leaf.actions,): leaf.probability for leaf in enumerate_leaves(trees, 0)}
    assert solutions.actions.shape[1] == 6 and solutions.valid.all()
    single = collections.Counter((tuple(a),) for a in solutions.actions.flatten(0, 1).tolist())
    assert_frequencies(single, leaves, 60_000)
    for i, j in ((0, 1), (1, 4)):  # samples of one instance are independent, within a round and across rounds
        pairs = collections.Counter(tuple(map(tuple, row)) for row in solutions.actions[:, [i, j]].tolist())
        independent = {(*a, *b): p * q for a, p in leaves.items() for b, q in leaves.items()}
        assert_frequencies(pairs, independent, 10_000)


def test_nucleus_samples_the_renormalised_policy():
    trees = small_tree(leaves=5)
    top_p = 0.75
    seen = ordered_samples(run(trees, methods.WithoutReplacement(1, 1, top_p_start=1.0, top_p_end=top_p)))
    probabilities = {}
    for leaf in enumerate_leaves(trees, 0):
        node, value = 0, 1.0
        for action in leaf.actions:
            p = (trees.logits[0, node].exp() * trees.legal[0, node]).div(
                (trees.logits[0, node].exp() * trees.legal[0, node]).sum()
            )
            kept = [a for a in range(3) if p[p > p[a]].sum() < top_p]  # those not already reached without a
            value *= (p[action] / p[kept].sum()).item() if action in kept else 0.0
            node = 3 * node + action + 1
        if value > 0:
            probabilities[(leaf.actions,)] = value
    assert len(probabilities) < 5  # the nucleus cuts something off
    assert_frequencies(seen, probabilities, TRIALS)


def mean_and_error(estimates):
    return estimates.mean().item(), (estimates.std() / math.sqrt(len(estimates))).item()


@pytest.mark.parametrize("width", [2, 3, 4])
def test_unbiased_estimates_with_a_sampled_root(width):
    trees = small_tree(leaves=5)
    leaves = enumerate_leaves(trees, 0)
    exact = sum(leaf.probability * leaf.outcome for leaf in leaves)
    entropy = -sum(leaf.probability * math.log(leaf.probability) for leaf in leaves)
    found = run(trees, methods.WithoutReplacement(width, 1), seed=1)
    sampled = (found.round_log_probs, found.gumbels, found.valid)
    for values, expected in ((-found.costs, exact), (-found.round_log_probs, entropy)):
        mean, error = mean_and_error(estimate_expectation(values, *sampled, normalised=False))
        assert abs(mean - expected) < 4.7 * error


def over_rounds(found, rounds, values, normalised):
    """The estimate from all rounds of a search without replacement that was asked for so many."""
    logs, made = (found.log_probs, found.round_log_probs, found.gumbels), found.stats.rounds
    return estimate_over_rounds(values, *logs, made, found.valid, normalised, complete=made < rounds)


def test_leaves_of_other_rounds_are_refused():
    found = run(small_tree(leaves=5), methods.WithoutReplacement(2, 2), trials=3)
    with pytest.raises(ValueError, match="4 leaves are not those of 3 rounds"):
        estimate_over_rounds(found.costs, found.log_probs, found.round_log_probs, found.gumbels, 3, found.valid)


@pytest.mark.parametrize(("width", "rounds"), [(1, 3), (2, 2), (4, 1)])
def test_estimates_over_rounds_are_unbiased(width, rounds):
    leaves = enumerate_leaves(trees := small_tree(leaves=5), 0)
    exact = sum(leaf.probability * leaf.outcome for leaf in leaves)
    entropy = -sum(leaf.probability * math.log(leaf.probability) for leaf in leaves)
    found = run(trees, methods.WithoutReplacement(width, rounds), seed=1)
    for values, expected in ((-found.costs, exact), (-found.log_probs, entropy)):
        mean, error = mean_and_error(over_rounds(found, rounds, values, normalised=False))
        assert 0 < error and abs(mean - expected) < 4.7 * error


@pytest.mark.parametrize("normalised", [True, False])
def test_more_rounds_estimate_better_and_all_leaves_exactly(normalised):
    trees = small_tree(leaves=5)
    exact = sum(leaf.probability * leaf.outcome for leaf in enumerate_leaves(trees, 0))
    errors = []
    for rounds in (1, 2, 3):
        found = run(trees, methods.WithoutReplacement(2, rounds), trials=10_000)
        estimates = over_rounds(found, rounds, -found.costs, normalised)
        errors.append((estimates - exact).square().mean().sqrt().item())
    assert errors[0] > 1.5 * errors[1] > 0 and errors[2] < 1e-12


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize(("width", "rounds"), [(1, 7), (5, 2), (5, 8), (2, 9)])
def test_a_search_that_ends_early_knows_the_expectation(width, rounds, normalised):
    """Its last round may be a whole one, after which nothing is left."""
    trees = small_tree(leaves=5)
    exact = sum(leaf.probability * leaf.outcome for leaf in enumerate_leaves(trees, 0))
    found = run(trees, methods.WithoutReplacement(width, rounds), trials=20)
    assert found.stats.rounds < rounds
    torch.testing.assert_close(over_rounds(found, rounds, -found.costs, normalised), torch.full((20,), exact).double())


def test_one_round_is_estimated_as_ever():
    found = run(small_tree(leaves=5), methods.WithoutReplacement(3, 1), trials=50)
    one = estimate_expectation(found.costs, found.round_log_probs, found.gumbels, found.valid)
    torch.testing.assert_close(over_rounds(found, 1, found.costs, normalised=True), one)


def test_independent_samples_are_averaged():
    leaves = enumerate_leaves(trees := small_tree(leaves=5), 0)
    found = run(trees, methods.Sampling(3, 1), seed=1)
    mean, error = mean_and_error(monte_carlo(-found.costs, found.valid))
    assert abs(mean - sum(leaf.probability * leaf.outcome for leaf in leaves)) < 4.7 * error
    assert monte_carlo(torch.tensor([[1.0, 4.0, 9.0]]), torch.tensor([[True, True, False]])).item() == 2.5


def test_a_beam_bounds_the_expectation_from_below():
    leaves = enumerate_leaves(trees := small_tree(leaves=5), 0)
    entropy = -sum(leaf.probability * math.log(leaf.probability) for leaf in leaves)
    bounds = []
    for width in (1, 2, 3, 5, 8):
        found = run(trees, methods.Beam(width), trials=1)
        p, valid = found.log_probs.exp(), found.valid
        bounds.append(estimate_by_beam(-found.log_probs, found.log_probs, valid, normalised=False).item())
        normalised = estimate_by_beam(-found.log_probs, found.log_probs, valid).item()
        assert normalised == pytest.approx(bounds[-1] / p[valid].sum().item())
    assert bounds[0] < bounds[1] < bounds[2] < bounds[3] == pytest.approx(entropy) and bounds[4] == bounds[3]


def test_the_root_does_not_change_the_sample():
    """It shifts all Gumbels of an instance alike; only the unnormalised estimate minds (`test_known_value`)."""
    trees = small_tree(leaves=5)
    fixed, sampled = (
        run(trees, methods.WithoutReplacement(3, 1, sampled_root=False)),
        run(trees, methods.WithoutReplacement(3, 1)),
    )
    assert torch.equal(fixed.actions, sampled.actions)
    assert (fixed.gumbels[:, 0] == 0).all() and sampled.gumbels[:, 0].std() > 1


def test_normalised_estimates_converge():
    """Their error falls with the width, down to none when the sample is everything."""
    trees = small_tree(leaves=5)
    exact = sum(leaf.probability * leaf.outcome for leaf in enumerate_leaves(trees, 0))
    errors = []
    for width in (2, 3, 5, 6):
        found = run(trees, methods.WithoutReplacement(width, 1), trials=10_000)
        estimates = estimate_expectation(-found.costs, found.round_log_probs, found.gumbels, found.valid)
        errors.append((estimates - exact).square().mean().sqrt().item())
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < 1e-12


def test_known_value_of_the_estimators():
    """p = (.5, .2, .15, .1, .05), f = (1, 3, -2, 5, 10), K = 3: the exact mean is 1.8, a root of 0 gives 1.618."""
    problem, policy = FlatProblem(), FlatPolicy()
    instance = Flat(torch.tensor([[0.5, 0.2, 0.15, 0.1, 0.05]]).double().expand(200_000, -1))
    means = []
    for sampled_root in (True, False):
        config = methods.WithoutReplacement(3, 1, sampled_root=sampled_root)
        found = search(problem, policy, instance, config, torch.Generator().manual_seed(0))
        raw = estimate_expectation(-found.costs, found.round_log_probs, found.gumbels, normalised=False)
        normalised = estimate_expectation(-found.costs, found.round_log_probs, found.gumbels)
        means += [raw.mean().item(), normalised.mean().item()]
    assert means == pytest.approx([1.800, 1.76, 1.618, 1.76], abs=0.02)


class Flat(collections.namedtuple("Flat", ["probability"])):
    pass


class FlatProblem(Problem):
    """One decision among five."""

    name = "flat"
    outcome = torch.tensor([1.0, 3.0, -2.0, 5.0, 10.0], dtype=torch.float64)

    def generate(self, n, generator):
        return Flat(torch.rand(n, 5, generator=generator).softmax(dim=1))

    def num_actions(self, instance):
        return 5

    def horizon(self, instance):
        return 1

    def last_choice(self, instance):
        return 0

    def reset(self, instance):
        return instance

    def step(self, instance, state, action):
        return state

    def mask(self, instance, state):
        return torch.ones_like(state.probability, dtype=torch.bool)

    def cost(self, instance, actions):
        return -self.outcome[actions[:, 0]]


class FlatPolicy(TablePolicy):
    def forward(self, context, state):
        return state.probability.log()
