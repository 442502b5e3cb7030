"""Take a step and reconsider: against the slow reference, and what it promises."""

from __future__ import annotations

import time

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.sampler import methods, trie_search
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import sample_round
from gumbeldore.sampler.search import search, unsearched
from gumbeldore.sampler.updates import gumbeldore
from tests.helpers.reference import Reference, assert_same_round
from tests.helpers.trees import DEPTH, TablePolicy, TreeProblem, enumerate_leaves

PROBLEM, POLICY = TreeProblem(), TablePolicy()
TREES = PROBLEM.generate(60, torch.Generator().manual_seed(11), branching=0.9)
KEYS = torch.arange(60) * 7919


def find(config, trees=TREES, keys=KEYS, policy=POLICY):
    return search(PROBLEM, policy, trees, config, keys=keys)


class Shifted(methods.Tasar):
    """With Gumbeldore's update instead of none."""

    step_size = 0.8

    def update(self, trie, leaves, objective):
        gumbeldore(trie, leaves, objective, self.step_size)


def reference_rounds(row, config):
    slow = Reference(TREES, row, KEYS[row].item(), config.beam_width, config.top_p_end)
    rounds, best, prefix = [], None, ()
    while len(prefix) < DEPTH:
        for _ in range(config.num_rounds):
            found = slow.round(len(rounds), prefix)
            rounds.append(found)
            if found:
                slow.remove(found)
                if isinstance(config, Shifted):
                    mu = slow.expectation(found)
                    for leaf in found:
                        slow.add(leaf, config.step_size * (leaf.outcome - mu))
            best = max([*found, *([best] if best else [])], key=lambda leaf: leaf.outcome)
        prefix = best.actions[: len(prefix) + config.replan_steps]
    return rounds


@pytest.mark.parametrize("replan_steps", [1, 2])
@pytest.mark.parametrize(
    ("method", "width", "rounds"),
    [*((methods.Tasar, *each) for each in [(1, 1), (2, 1), (2, 2), (4, 1)]), (Shifted, 2, 2)],
)
def test_fast_and_slow_agree_on_the_same_noise(method, width, rounds, replan_steps):
    config = method(width, rounds, replan_steps)
    fast = find(config)
    assert fast.stats.rounds > rounds  # the root has moved
    for row in range(len(KEYS)):
        for round_, found in enumerate(reference_rounds(row, config)):
            assert_same_round(fast, row, round_, width, found)


def test_no_leaf_is_sampled_twice_and_all_follow_the_best_before_them():
    found = find(methods.Tasar(2, 1, 1))
    for row in range(len(KEYS)):
        probability = {leaf.actions: leaf.probability for leaf in enumerate_leaves(TREES, row)}
        best, seen = None, []
        for i in found.valid[row].nonzero().flatten().tolist():
            actions, depth = tuple(found.actions[row, i].tolist()), found.round[row, i]
            if i % 2 == 0 and seen:
                best = min(seen)[1]  # the first of the cheapest: ties have equal actions' order
            assert best is None or actions[:depth] == best[:depth]
            seen.append((found.costs[row, i].item(), actions))
            assert found.log_probs[row, i].exp().item() == pytest.approx(probability[actions], rel=1e-9)
        assert len({actions for _, actions in seen}) == len(seen)


@pytest.mark.parametrize("rounds", [1, 3])
def test_replanning_after_the_whole_horizon_is_one_search(rounds):
    for steps in (DEPTH, DEPTH + 5):
        one, other = find(methods.WithoutReplacement(2, rounds)), find(methods.Tasar(2, rounds, steps))
        assert torch.equal(one.valid, other.valid)
        for name in ("actions", "costs", "log_probs", "round_log_probs", "gumbels", "round"):
            assert torch.equal(getattr(one, name)[one.valid], getattr(other, name)[one.valid])


def test_the_result_is_never_worse_than_its_first_round():
    first, found = find(methods.WithoutReplacement(2, 1)).best()[1], find(methods.Tasar(2, 1, 1)).best()[1]
    assert (found <= first).all() and (found < first).any()


def test_an_exhausted_subtree_ends_the_search_with_the_best_solution():
    found = find(methods.Tasar(27, 1, 1))
    assert found.stats.rounds == 1
    for row in range(len(KEYS)):
        leaves = enumerate_leaves(TREES, row)
        assert found.valid[row].sum() == len(leaves)
        assert found.best()[1][row].item() == -max(leaf.outcome for leaf in leaves)


def test_an_instance_does_not_depend_on_its_neighbours():
    for config in (methods.Tasar(2, 2, 1), Shifted(3, 1, 2)):
        together = find(config)
        for row in (0, 17, 59):
            alone = find(config, take(TREES, slice(row, row + 1)), KEYS[row : row + 1])
            length = alone.valid.shape[1]
            assert not together.valid[row, length:].any()
            assert torch.equal(together.valid[row, :length], alone.valid[0])
            valid = alone.valid[0]
            assert torch.equal(together.actions[row, :length][valid], alone.actions[0][valid])
            assert torch.equal(together.gumbels[row, :length][valid], alone.gumbels[0][valid])


def test_the_time_is_shared_out_among_the_roots(monkeypatch):
    """A round takes a second, of ten: one for the greedy solution, three for each of the three roots."""

    class Clock(TreeProblem):
        seconds = 0

        def cost(self, instance, actions):
            self.seconds += 1
            return super().cost(instance, actions)

    rounds = []
    for seed in range(10):
        clock = Clock()
        monkeypatch.setattr(time, "monotonic", lambda clock=clock: clock.seconds)
        trees = PROBLEM.generate(1, torch.Generator().manual_seed(seed), branching=1.0)
        config = methods.Anytime(methods.Tasar(1, 1, 1), 10)
        found = search(clock, POLICY, trees, config, keys=KEYS[:1])
        rounds.append(found.stats.rounds)  # fewer than nine where nothing is left below a root
        actions = found.actions[0, :-1]  # the last is the greedy one
        for root, first in ((1, 3), (2, 6)):
            best = actions[found.costs[0, :first].argmin()]
            assert (actions[first : first + 3, :root] == best[:root]).all()
        assert len(actions[:3].unique(dim=0)) == 3
    assert 6 < max(rounds) <= 9


@pytest.mark.parametrize("replan_steps", [1, 2])
def test_the_trie_holds_the_depths_below_the_root_and_the_rounds_so_far(replan_steps, monkeypatch):
    """Its largest size is what the memory of a search is reckoned with."""
    config, horizon, sizes = methods.Tasar(2, 2, replan_steps), PROBLEM.horizon(TREES), []

    def watched(context, trie, *rest):
        sizes.append(trie_ops.memory(trie))
        assert len(trie.log_pi) == context.root.horizon and len(trie.parent) == context.root.horizon + 1
        return sample_round(context, trie, *rest)

    monkeypatch.setattr(trie_search, "sample_round", watched)
    find(config)
    task = unsearched(PROBLEM, POLICY, TREES)
    assert max(sizes) == len(KEYS) * config.trie_memory(task)
    whole = methods.WithoutReplacement(2, config.count(horizon))
    assert max(sizes) < len(KEYS) * whole.trie_memory(task)


def test_there_is_a_step_at_least():
    with pytest.raises(ValueError, match="replan_steps must be an integer of at least 1 and at most .*, got 0"):
        methods.Tasar(2, 1, 0)
