"""Decisions that the sampling policy was sure of are drawn less often, and count for more: the same loss on average."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore import methods
from gumbeldore.dataset import PseudoExperts, read_shard
from gumbeldore.experts import sample_experts
from gumbeldore.search import TopP, search
from gumbeldore.workers import SearchPool
from problems.cvrp import CVRP
from problems.cvrp_types import Instance
from tests.test_cvrp import random_solutions
from tests.test_training import trained
from tests.trees import TablePolicy, TreeProblem

PROBLEM, POLICY = TreeProblem(), TablePolicy()
TREES = PROBLEM.generate(60, torch.Generator().manual_seed(3))
ROUTES = CVRP(5, [12, 12])
METHODS = {
    "greedy": methods.greedy(),
    "beam": methods.beam(4),
    "sampling": methods.sampling(4, 3),
    "without replacement": methods.wor(2, 4),
    "nucleus": methods.wor(2, 4, top_p=TopP(0.5, 0.9)),
    "gumbeldore": methods.gumbeldore(3, 4, 0.8),
    "theory": methods.theory(3, 4, 0.8),
}


def by_hand(trees, actions):
    """log pi [n, T] of each decision, one tree and one decision after the other."""
    found = torch.zeros(actions.shape, dtype=torch.float64)
    for row, decisions in enumerate(actions.tolist()):
        node = 0
        for depth, action in enumerate(decisions):
            logits = trees.logits[row, node].masked_fill(~trees.legal[row, node], -math.inf)
            found[row, depth] = logits.log_softmax(0)[action]
            node = 3 * node + action + 1
    return found


@pytest.mark.parametrize("method", METHODS)
def test_every_decision_comes_with_its_probability_under_the_policy(method):
    """Not with the one under the trie's, the round's or the nucleus'."""
    found = search(PROBLEM, POLICY, TREES, METHODS[method], keys=torch.arange(60))
    for place in range(found.actions.shape[1]):
        valid = found.valid[:, place]
        wanted = by_hand(TREES, found.actions[:, place])
        torch.testing.assert_close(found.action_log_probs[valid, place], wanted[valid].float())
        torch.testing.assert_close(found.log_probs[valid, place], wanted[valid].sum(dim=1))


@pytest.mark.parametrize("greedy_too", [False, True])
def test_experts_keep_the_probabilities_of_their_own_decisions(greedy_too):
    with SearchPool(PROBLEM, POLICY) as pool:
        experts = sample_experts(pool, TREES, torch.arange(60), methods.wor(1, 2), greedy_too)
    torch.testing.assert_close(experts.probabilities, by_hand(TREES, experts.actions).exp().float())


def shards(known):
    """Forty random solutions in two shards, with a probability for each of their decisions or without."""
    instances, actions = random_solutions(ROUTES, 40)
    probabilities = torch.rand(40, 5, generator=torch.Generator().manual_seed(5)) if known else None
    costs = ROUTES.cost(instances, actions)
    for part in (slice(25), slice(25, None)):
        fields = Instance(*(field[part] for field in instances))
        yield fields, actions[part], costs[part], probabilities[part] if known else None


def filled(known, folder=None):
    dataset = PseudoExperts(folder)
    for name, fields in zip("ab", shards(known), strict=True):
        dataset.add(name, *fields)
    return dataset


def counted(dataset, importance):
    """How often each of the forty is drawn at its third decision, and its weight."""
    actions = torch.cat([shard.actions for shard in dataset.shards])
    draws = torch.Generator().manual_seed(7)
    times, weights = torch.zeros(40), torch.zeros(40)
    for _ in range(400):
        example = dataset.batch(ROUTES, 100, draws, reorder=False, importance=importance)
        if example.rest.shape[1] == 3:
            same = (example.instance.demands[:, None] == dataset_demands(dataset)).all(dim=2)
            row = (same & (example.rest[:, None] == actions[:, 2:]).all(dim=2)).int().argmax(dim=1)
            times += torch.bincount(row, minlength=40)
            weights[row] = example.weight
    return times, weights


def dataset_demands(dataset):
    return torch.cat([shard.instances.demands for shard in dataset.shards])


@pytest.mark.parametrize("importance", [0.1, 0.5])
def test_what_is_drawn_less_often_weighs_more(importance):
    dataset = filled(known=True)
    probability = torch.cat([shard.probabilities for shard in dataset.shards])[:, 2]
    often = 1 - (1 - importance) * probability
    times, weights = counted(dataset, importance)
    total = times.sum()
    assert total > 5000
    expected = total * often / often.sum()
    assert ((times - expected) ** 2 / expected).sum() < 73  # chi-squared of 39 degrees of freedom: 0.1%
    torch.testing.assert_close(weights, often.mean() / often)
    torch.testing.assert_close(often / often.sum() * weights, torch.full((40,), 1 / 40))  # the expectation is uniform


@pytest.mark.parametrize(("known", "importance"), [(False, 0.1), (True, 1.0)])
def test_draws_are_uniform_without_probabilities_and_with_importance_1(known, importance):
    dataset = filled(known)
    times, weights = counted(dataset, importance)
    expected = times.sum() / 40
    assert ((times - expected) ** 2 / expected).sum() < 73 and torch.equal(weights, torch.ones(40))


def test_probabilities_are_written_and_read_again(tmp_path):
    dataset = filled(known=True, folder=tmp_path)
    again = PseudoExperts(tmp_path)
    again.restore(["a", "b"], Instance)
    first, second = (
        x.batch(ROUTES, 50, torch.Generator().manual_seed(1), reorder=False, importance=0.2) for x in (dataset, again)
    )
    assert torch.equal(first.rest, second.rest) and torch.equal(first.weight, second.weight)
    assert len(set(first.weight.tolist())) > 5
    PseudoExperts(tmp_path).add("c", *next(iter(shards(known=False))))
    assert read_shard(tmp_path / "c.npz", Instance).probabilities is None


@pytest.mark.parametrize("wrong", [torch.ones(25, 4), torch.full((25, 5), 1.5), torch.full((25, 5), math.nan)])
def test_probabilities_that_are_none_are_refused(wrong, tmp_path):
    PseudoExperts(tmp_path).add("a", *next(iter(shards(known=True)))[:3], wrong)
    with pytest.raises(ValueError, match=r"a.npz is damaged: it needs a probability in \[0, 1\] for every action"):
        read_shard(tmp_path / "a.npz", Instance)


def test_sure_decisions_are_drawn_less_often_once_experts_are_imitated_as_sampled(monkeypatch):
    seen, draw = [], PseudoExperts.batch

    def batch(self, *arguments):
        seen.append(arguments[-1])
        return draw(self, *arguments)

    monkeypatch.setattr(PseudoExperts, "batch", batch)
    learner, _ = trained(epochs=4, batches_per_epoch=2, reorder_until=0.5, importance=0.3)
    assert seen == [1.0] * 4 + [0.3] * 4
    assert all(0 < shard.probabilities.mean() < 1 for shard in learner.dataset.shards)


def test_weights_count_in_the_loss_and_in_the_accuracy(monkeypatch):
    def weighted(by):
        draw = PseudoExperts.batch

        def batch(*arguments):
            example = draw(*arguments)
            return example._replace(weight=by * example.weight)

        with monkeypatch.context() as patch:
            patch.setattr(PseudoExperts, "batch", batch)
            (report,) = trained(epochs=1, batches_per_epoch=1)[1]
        return report.metrics

    once, twice = weighted(1.0), weighted(2.0)
    for name in ("training/loss", "training/accuracy", "training/gradient_norm"):
        assert twice[name] == pytest.approx(2 * once[name], rel=1e-4) and once[name] > 0
