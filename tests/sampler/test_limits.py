"""Searches that end for time or memory."""

from __future__ import annotations

import re
import time

import pytest
import torch

from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search, unsearched
from gumbeldore.sampler.task import SearchTask
from tests.helpers.trees import TablePolicy, TreeProblem, enumerate_leaves

PROBLEM, POLICY = TreeProblem(), TablePolicy()
TREES = PROBLEM.generate(60, torch.Generator().manual_seed(11))
KEYS = torch.arange(60) * 7919


def find(config, trees=TREES, keys=KEYS):
    return search(PROBLEM, POLICY, trees, config, keys=keys)


def test_time_limit_adds_rounds():
    trees = PROBLEM.generate(2, torch.Generator().manual_seed(8), branching=1.0)
    method = methods.Anytime(methods.WithoutReplacement(1, 2), 30.0)
    found = find(method, trees, KEYS[:2])  # ends when both are exhausted
    counts = [len(enumerate_leaves(trees, row)) for row in range(2)]
    assert found.valid.sum(dim=1).tolist() == counts and found.stats.rounds == max(counts)


def test_a_round_that_lasts_beyond_the_time_limit_is_abandoned(monkeypatch):
    """Then the rounds before it are what there is, and the greedy solution where it is better."""

    class Clock(TablePolicy):
        """Every question takes a second."""

        seconds = asked = 0

        def forward(self, context, state):
            self.seconds += 1
            self.asked += len(state[0])
            return super().forward(context, state)

    def timed(config, limit=None):
        clock = Clock()
        monkeypatch.setattr(time, "monotonic", lambda: clock.seconds)
        config = config if limit is None else methods.Anytime(config, limit / len(KEYS))
        found = search(PROBLEM, clock, TREES, config, keys=KEYS)
        assert found.stats.evaluations == clock.asked  # those of an abandoned round, too
        return found, clock.seconds

    greedy, until_greedy = timed(methods.Greedy())
    one, a_round = timed(methods.WithoutReplacement(4, 1))
    found, seconds = timed(methods.WithoutReplacement(4, 1), limit=until_greedy + a_round)
    assert torch.equal(found.actions[:, :4], one.actions) and seconds == until_greedy + a_round
    found, seconds = timed(methods.WithoutReplacement(4, 1), limit=until_greedy + 1)
    assert torch.equal(found.actions, greedy.actions) and seconds == until_greedy + 1
    assert found.stats.rounds == 0 and one.stats.rounds == 1

    one, a_round = timed(methods.WithoutReplacement(1, 1))
    found, _ = timed(methods.WithoutReplacement(1, 1), limit=until_greedy + a_round)
    assert torch.equal(found.actions, torch.cat([one.actions, greedy.actions], dim=1))
    better = greedy.costs < one.costs
    assert better.any() and not better.all()
    assert torch.equal(found.valid, torch.cat([one.valid, better], dim=1))
    assert torch.equal(found.log_probs.isnan(), torch.tensor([[False, True]] * len(KEYS)))
    assert found.round.tolist() == [[0, 1]] * len(KEYS)
    for field, alone in zip(found.sampled()[:-1], one[:-1], strict=True):  # what the estimators may be given
        assert torch.equal(field, alone)


@pytest.mark.parametrize("method", [methods.WithoutReplacement, methods.Tasar])
def test_the_time_may_end_between_two_rounds(monkeypatch, method):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    class Slow(method):
        def update(self, trie, leaves, objective):
            super().update(trie, leaves, objective)
            clock[0] += 7.0

    slow = Slow(1, 1, 1) if method is methods.Tasar else Slow(1, 1)
    found = find(methods.Anytime(slow, 20.0 / len(KEYS)))
    assert found.stats.rounds == 3 and clock[0] == 21.0


def test_a_search_for_a_time_ends_where_its_memory_does():
    config = methods.Anytime(methods.Sampling(2, 3), 1000.0)
    room = config.trie_memory(unsearched(PROBLEM, POLICY, TREES)) * len(KEYS)
    for memory, rounds in ((room, 3), (2.5 * room, 6), (4 * room, 12)):
        found = search(PROBLEM, POLICY, TREES, config, keys=KEYS, trie_budget=int(memory))
        assert found.stats.rounds == rounds and found.valid[:, :-1].all()  # the last is the greedy one


def test_of_finished_rounds_the_solutions_are_kept_alone():
    """Decisions and five numbers a solution; not the beams that led to them."""
    task = SearchTask(PROBLEM, POLICY, TREES, POLICY.encode(TREES), KEYS, KEYS)
    found = methods.WithoutReplacement(3, 3).found(task).rounds
    held = [field.untyped_storage() for each in found for field in each if isinstance(field, torch.Tensor)]
    sizes = {storage.data_ptr(): storage.nbytes() for storage in held}
    assert sum(sizes.values()) <= 3 * len(KEYS) * 3 * (task.horizon + 5) * 8


@pytest.mark.parametrize("method", [methods.Greedy(), methods.Beam(4), methods.Equivalents(methods.DiverseBeam(4), 2)])
def test_a_time_limit_is_for_methods_that_find_more_in_more_time(method):
    with pytest.raises(ValueError, match=f"a time_limit is for .*, got {type(method).__name__}"):
        methods.Anytime(method, 1.0)


@pytest.mark.parametrize("wrong", ["greedy", methods.Greedy, None, methods.Anytime(methods.Sampling(), 1.0)])
def test_what_is_no_method_of_rounds_is_not_wrapped(wrong):
    for wrap in (methods.Equivalents, methods.Anytime):
        with pytest.raises(ValueError, match=f"(is|are) for a method .*, got {re.escape(repr(wrong))}"):
            wrap(wrong, 2)


@pytest.mark.parametrize("limit", [0, -1, float("nan"), "1"])
def test_a_time_limit_is_above_zero(limit):
    with pytest.raises(ValueError, match="time_limit must be a number above 0"):
        methods.Anytime(methods.Sampling(2), limit)
