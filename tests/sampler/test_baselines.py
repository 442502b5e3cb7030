"""Temperature, diverse beam search, sampling with rejection."""

from __future__ import annotations

import collections
import math

import pytest
import torch

from gumbeldore.sampler import methods, trie_search
from gumbeldore.sampler.search import search
from tests.helpers.statistics import assert_frequencies
from tests.helpers.trees import ACTIONS, DEPTH, TablePolicy, TreeProblem, copies, enumerate_leaves, small_tree

PROBLEM, POLICY = TreeProblem(), TablePolicy()
TREES = PROBLEM.generate(60, torch.Generator().manual_seed(11))
KEYS = torch.arange(60) * 7919


def find(config, trees=TREES, keys=KEYS):
    return search(PROBLEM, POLICY, trees, config, keys=keys)


with_temperature = pytest.mark.parametrize(
    "method",
    [
        lambda t: methods.Sampling(3, 2, temperature=t),
        lambda t: methods.Rejection(3, 2, temperature=t),
        lambda t: methods.WithoutReplacement(3, 3, temperature=t),
        lambda t: methods.Gumbeldore(3, 3, 0.8, top_p_start=0.7, top_p_end=1.0, temperature=t),
        lambda t: methods.Theory(3, 3, 0.8, temperature=t),
        lambda t: methods.Tasar(3, 2, 1, temperature=t),
    ],
    ids=["sampling", "rejection", "wor", "gumbeldore", "theory", "tasar"],
)


@with_temperature
@pytest.mark.parametrize("temperature", [0.3, 2.5])
def test_a_temperature_is_another_policy(method, temperature):
    """The policy whose logits are divided by it: in what is sampled, and in all that is reported of it."""
    hot, scaled = find(method(temperature)), find(method(1.0), TREES._replace(logits=TREES.logits / temperature))
    assert torch.equal(hot.actions, scaled.actions) and torch.equal(hot.valid, scaled.valid)
    for name in ("log_probs", "round_log_probs", "gumbels"):
        assert torch.allclose(getattr(hot, name)[hot.valid], getattr(scaled, name)[hot.valid], atol=1e-9)
    assert not torch.equal(hot.log_probs, find(method(1.0)).log_probs)


@with_temperature
def test_the_temperature_auto_falls_with_the_number_of_decisions(method, monkeypatch):
    """Of a whole solution, also where TASAR has decided on a part of it."""
    assert torch.equal(find(method("auto")).log_probs, find(method(1.0)).log_probs)  # no more than 50 decisions
    monkeypatch.setattr(trie_search, "UNTEMPERED", 2)
    assert torch.equal(find(method("auto")).log_probs, find(method(2 / DEPTH)).log_probs)


def test_near_zero_samples_are_greedy():
    greedy = find(methods.Greedy()).actions[:, 0]
    assert torch.equal(find(methods.Sampling(1, 1, temperature=1e-300)).actions[:, 0], greedy)
    assert torch.equal(find(methods.WithoutReplacement(1, 1, temperature=1e-300)).actions[:, 0], greedy)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan, "1", "cold"])
def test_temperatures_are_above_zero(bad):
    with pytest.raises(ValueError, match="temperature must be a number above 0"):
        methods.Sampling(2, 1, temperature=bad)


def slow_diverse_beam(row, groups, width, diversity):
    """From the paper's pseudocode, with dictionaries."""
    beams = [[((), 0.0, 0)] for _ in range(groups)]
    for _ in range(DEPTH):
        chosen = collections.Counter()
        for g, beam in enumerate(beams):
            options = []
            for actions, score, node in beam:
                legal = [a for a in range(ACTIONS) if TREES.legal[row, node, a]]
                total = torch.stack([TREES.logits[row, node, a] for a in legal]).logsumexp(0).item()
                for a in legal:
                    value = score + TREES.logits[row, node, a].item() - total
                    options.append((value - diversity * chosen[a], value, (*actions, a), 3 * node + a + 1))
            options.sort(key=lambda option: -option[0])
            beams[g] = [(actions, value, node) for _, value, actions, node in options[:width]]
            chosen.update(actions[-1] for actions, _, _ in beams[g])
    return [actions for beam in beams for actions, _, _ in beam]


@pytest.mark.parametrize(("groups", "width", "diversity"), [(2, 2, 0.0), (2, 2, 0.7), (3, 1, 1.5), (4, 2, 0.4)])
def test_diverse_beam_search_is_that_of_the_paper(groups, width, diversity):
    found = find(methods.DiverseBeam(groups * width, groups, diversity))
    for row in range(len(KEYS)):
        theirs = slow_diverse_beam(row, groups, width, diversity)
        assert [tuple(a) for a in found.actions[row][found.valid[row]].tolist()] == theirs


def test_one_group_is_beam_search_and_groups_become_different():
    one, beam = find(methods.DiverseBeam(4, 1, 0.5)), find(methods.Beam(4))
    assert torch.equal(one.actions, beam.actions) and torch.equal(one.valid, beam.valid)

    def different(diversity):
        found = find(methods.DiverseBeam(4, 4, diversity))
        return sum(len({tuple(a) for a in row.tolist()}) for row in found.actions)

    assert different(0.0) == len(KEYS) < different(1.0) < different(10.0)


def test_groups_share_what_the_network_says():
    found, alone = find(methods.DiverseBeam(4, 4, 0.0)), find(methods.Greedy())
    assert found.stats.evaluations == alone.stats.evaluations


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"groups": 3}, "groups must divide beam_width=4, got 3"),
        ({"groups": 0}, "groups must be an integer of at least 1"),
        ({"groups": 2, "diversity": -1}, "diversity must be a number of at least 0"),
    ],
)
def test_wrong_settings_are_refused(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        methods.DiverseBeam(4, **arguments)


def test_rejection_samples_without_replacement():
    """The first k different ones of independent samples are a sample without replacement."""
    trees = small_tree(leaves=5)
    leaves = {leaf.actions: leaf.probability for leaf in enumerate_leaves(trees, 0)}
    solutions = search(
        PROBLEM,
        POLICY,
        copies(trees, 10_000),
        methods.Rejection(2, 1, max_rounds=200),
        torch.Generator().manual_seed(0),
    )
    assert (solutions.valid.sum(dim=1) == 2).all()
    pairs = solutions.actions[solutions.valid].view(10_000, 2, -1).tolist()
    expected = {(a, b): p * q / (1 - p) for a, p in leaves.items() for b, q in leaves.items() if a != b}
    assert_frequencies(collections.Counter(tuple(map(tuple, pair)) for pair in pairs), expected, 10_000)


def test_rejection_keeps_different_ones_until_there_are_enough():
    found, drawn = find(methods.Rejection(3, 2, max_rounds=50)), find(methods.Sampling(3, 50))
    for row in range(len(KEYS)):
        expected = []
        for actions in map(tuple, drawn.actions[row].tolist()):
            if actions not in expected and len(expected) < 6:
                expected.append(actions)
        assert [tuple(a) for a in found.actions[row][found.valid[row]].tolist()] == expected
    assert 0 < found.stats.rejected < drawn.valid.sum() - found.valid.sum()  # those that have enough draw no more
    assert find(methods.Rejection(3, 2, max_rounds=2)).stats.rounds == 2
