"""What training adds to the paper's recipe: instances that grow, orders of decisions, greedy experts, late epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import train
from gumbeldore import methods
from gumbeldore.dataset import PseudoExperts
from gumbeldore.experts import sample_experts
from gumbeldore.self_improvement import plan
from gumbeldore.settings import TrainSettings
from gumbeldore.workers import SearchPool
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.test_commands import compose, typed
from tests.test_cvrp import random_solutions
from tests.test_supervised import NETWORK, WORDS, experts
from tests.test_training import SEARCH, SIZES, new_learner, trained
from tests.trees import TablePolicy, TreeProblem

PROGRESS = (0.0, 0.125, 0.25, 0.5, 0.9)


def test_routing_instances_grow_linearly():
    tsp, cvrp = TSP(20, grow=[8, 0.5]), CVRP(20, [30, 40], far_first=True, grow=[8, 0.5])
    assert [tsp.at(progress).num_nodes for progress in PROGRESS] == [8, 11, 14, 20, 20]
    assert [cvrp.at(progress).num_customers for progress in PROGRESS] == [8, 11, 14, 20, 20]
    small = cvrp.at(0.25)
    assert small.capacity == cvrp.capacity and small.far_first
    assert small.generate(3, torch.Generator()).coords.shape == (3, 15, 2)
    assert TSP(20).at(0.0).num_nodes == 20 and TSP(5, grow=[8, 0.5]).at(0.0).num_nodes == 5


def test_schedules_grow_in_both_dimensions():
    problem = JSSP([[6, 6], [10, 5]], [[6, 6]], chronological=True, reversal=True, grow=[[4, 4], 0.5])
    assert [problem.at(progress).sizes for progress in PROGRESS] == [
        *([(4, 4), (4, 4)], [(4, 4), (6, 4)], [(5, 5), (7, 4)], [(6, 6), (10, 5)], [(6, 6), (10, 5)])
    ]
    assert problem.at(0.25).chronological and problem.at(0.25).reversal
    assert JSSP([[3, 6]], [[6, 6]], grow=[[4, 4], 0.5]).at(0.0).sizes == [(3, 4)]  # nothing shrinks
    steady = JSSP([[4, 4], [5, 5]], [[6, 6]])
    assert steady.at(0.0) is steady


@pytest.mark.parametrize("grow", [[2, 0.5], [8, 0.0], [8, 1.5], [8]])
def test_impossible_growth_is_refused(grow):
    with pytest.raises(ValueError, match="grow must be"):
        TSP(20, grow=grow)
    with pytest.raises(ValueError, match="grow must be"):
        CVRP(20, [30, 30], grow=[1, *grow[1:]])
    with pytest.raises(ValueError, match="grow must be"):
        JSSP([[4, 4]], [[4, 4]], grow=[[4, grow[0] - 2], *grow[1:]])


def test_the_first_schedules_need_two_operations():
    with pytest.raises(ValueError, match="at least two operations"):
        JSSP([[4, 4]], [[4, 4]], grow=[[1, 1], 0.5])
    with pytest.raises(ValueError, match="grow must be"):
        JSSP([[4, 4]], [[4, 4]], grow=[4, 0.5])


def test_training_asks_for_the_size_of_its_epoch(monkeypatch):
    seen = []

    def at(self, progress):
        seen.append(progress)
        return TSP(5 + len(seen))

    monkeypatch.setattr(TSP, "at", at)
    learner, _ = trained(epochs=3, forget=False)
    assert seen == [0.0, 1 / 3, 2 / 3]
    assert learner.dataset.shards[-1].instances.coords.shape[1] == 8


def test_greedy_solutions_compete_if_asked():
    """One sample per instance is often worse than the greedy solution."""
    problem, policy = TreeProblem(), TablePolicy()
    trees, keys = problem.generate(60, torch.Generator().manual_seed(0)), torch.arange(60)
    with SearchPool(problem, policy) as pool:
        sampled = sample_experts(pool, trees, keys, methods.wor(1))
        both = sample_experts(pool, trees, keys, methods.wor(1), greedy_too=True)
        greedy = next(pool.map(trees, keys, methods.greedy()))[1]
    assert torch.equal(both.costs, torch.minimum(sampled.costs, greedy.costs[:, 0]))
    assert torch.equal(problem.cost(trees, both.actions), both.costs)
    better = greedy.costs[:, 0] < sampled.costs
    assert 0 < both.metrics["sampling/greedy_is_expert"] == better.double().mean().item() < 1
    assert torch.equal(both.actions[~better], sampled.actions[~better])


def test_the_untrained_policy_does_not_count_as_the_best():
    learner, reports = trained(epochs=1, batches_per_epoch=1, learning_rate=1e-9, final_learning_rate=1e-9)
    assert reports[0].improved and learner.best_cost == reports[0].metrics["quality/greedy_cost"]
    assert new_learner().best_cost == float("inf")


# ---- the order of decisions


def test_an_example_is_in_the_problems_order_or_in_the_experts_own():
    """Routes of random solutions: by their farthest customers, or as they are."""
    problem, dataset = CVRP(8, [12, 14], far_first=True), PseudoExperts()
    instances, actions = random_solutions(problem, 50)
    dataset.add("random", instances, actions, problem.cost(instances, actions))
    own = {tuple(row) for row in actions.tolist()}
    for reorder in (True, False):
        steps = set()
        for seed in range(40):
            rest = dataset.batch(problem, 20, torch.Generator().manual_seed(seed), reorder=reorder).rest
            steps.add(rest.shape[1])
            ends = {row[-rest.shape[1] :] for row in own}
            same = [tuple(row) in ends for row in rest.tolist()]
            assert reorder or all(same)
            if reorder and rest.shape[1] > 4:
                assert not all(same)
        assert steps == set(range(1, 9))


@pytest.mark.parametrize(
    ("until", "expected"), [(1, [1, 1, 1, 1]), (0.5, [1, 1, 0, 0]), (0.3, [1, 1, 0, 0]), (0, [0] * 4)]
)
def test_experts_are_reordered_for_a_share_of_the_epochs(until, expected, monkeypatch):
    seen, draw = [], PseudoExperts.batch

    def batch(self, problem, size, draws, device, reorder, *others):
        seen.append(reorder)
        return draw(self, problem, size, draws, device, reorder, *others)

    monkeypatch.setattr(PseudoExperts, "batch", batch)
    trained(epochs=4, batches_per_epoch=2, reorder_until=until)
    assert seen == [flag for flag in expected for _ in range(2)]


def test_given_solutions_are_always_reordered(tmp_path, monkeypatch):
    """A solver's order means nothing, whatever a preset says."""
    seen, draw = [], PseudoExperts.batch

    def batch(self, problem, size, draws, device, reorder, early_steps, importance):
        seen.append((reorder, importance))
        return draw(self, problem, size, draws, device, reorder, early_steps, importance)

    monkeypatch.setattr(PseudoExperts, "batch", batch)
    words = [*WORDS["cvrp"], "debug=fast", "train=supervised", f"train.experts={experts(tmp_path, 'cvrp')}"]
    cfg = compose("train", *words, *NETWORK, f"run_dir={tmp_path / 'run'}", "train.reorder_until=0", "workers=0")
    assert train.train(cfg)["totals/solutions"] == 0
    assert set(seen) == {(True, 1)}


# ---- which decisions, and how many instances

LATE = {"after": 0.5, "instances": 1.5, "beam_width": 0.25, "capacity": 3, "validate_every": 1}


@pytest.mark.parametrize("early_steps", [1, 1.5, 3])
def test_early_decisions_are_drawn_as_often_as_asked(early_steps):
    """P(step < s) = (s / T)^(1 / early_steps), on 2,000 draws; the largest distance stays below 1.63 / sqrt(2000)."""
    problem, dataset = TSP(9), PseudoExperts()
    instances, actions = problem.generate(1, torch.Generator().manual_seed(0)), torch.arange(1, 9)[None]
    dataset.add("one", instances, actions, problem.cost(instances, actions))
    draws, count = torch.Generator().manual_seed(1), problem.last_choice(instances) + 1
    drawn = [8 - dataset.batch(problem, 1, draws, early_steps=early_steps).rest.shape[1] for _ in range(2000)]
    found = torch.bincount(torch.tensor(drawn), minlength=count).cumsum(0) / 2000
    expected = (torch.arange(1, count + 1) / count) ** (1 / early_steps)
    assert len(found) == count and (found - expected).abs().max() < 1.63 / 2000**0.5


def test_late_epochs_sample_more_instances_with_narrower_beams():
    learner, reports = trained(epochs=4, forget=False, dataset_capacity=10, late=LATE)
    assert [len(shard.actions) for shard in learner.dataset.shards] == [15, 15]  # of 10, 10, 15, 15
    assert learner.dataset.capacity == 30
    assert [report.metrics["sampling/solutions"] for report in reports] == [80, 80, 30, 30]  # two rounds of 4, of 1
    sizes = [report.metrics["training/dataset_size"] for report in reports]
    assert sizes == [10, 10, 25, 30]  # the newest, within 10, then within 30


def test_nothing_is_late_before_its_time():
    """The epochs before are those of a training without; all of it from the start is a training of its own."""
    _, plain = trained(epochs=4)
    _, late = trained(epochs=4, late={**LATE, "capacity": 1})
    solutions = [[report.metrics["sampling/solutions"] for report in reports] for reports in (plain, late)]
    assert solutions == [[80] * 4, [80, 80, 30, 30]]
    costs = [[report.metrics["quality/greedy_cost"] for report in reports] for reports in (plain, late)]
    assert costs[0][:2] == costs[1][:2] and costs[0][2:] != costs[1][2:]
    always = TrainSettings(**{**SIZES, "late": {**LATE, "after": 0, "capacity": 1}})
    assert plan(always, SEARCH, 0) == (15, replace(SEARCH, beam_width=1))
    assert plan(replace(always, late=None), SEARCH, 2) == (10, SEARCH)


def test_late_epochs_are_validated_as_often_as_asked():
    """Every third, and the last; the best policy is that of one of them, and samples until another one is better."""
    every = {**LATE, "after": 0.25, "capacity": 1, "validate_every": 3}
    learner, reports = trained(epochs=8, late=every)
    known = [report.epoch for report in reports if "quality/greedy_cost" in report.metrics]
    assert known == [1, 2, 5, 8]
    assert not any(report.improved for report in reports if report.epoch not in known)
    bests = [report.metrics["quality/best_greedy_cost"] for report in reports]
    assert learner.best_cost == bests[-1] == min(r.metrics["quality/greedy_cost"] for r in reports if r.epoch in known)
    assert bests[2] == bests[3] == bests[1] and bests[5] == bests[6] == bests[4]


def test_there_is_a_best_policy_after_the_first_epoch():
    _, reports = trained(epochs=4, late={**LATE, "after": 0, "capacity": 1, "validate_every": 3})
    assert [report.epoch for report in reports if "quality/greedy_cost" in report.metrics] == [1, 4]
    assert reports[0].improved


def test_a_policy_of_an_epoch_cut_short_is_validated():
    """Whenever it is: nothing comes after it."""
    steps = iter(range(1000))
    every = {**LATE, "after": 0, "capacity": 1, "validate_every": 100}
    _, reports = trained(epochs=100, late=every, stop=lambda: next(steps) > 40)
    assert [("quality/greedy_cost" in r.metrics, r.complete) for r in reports][-2:] == [(False, True), (True, False)]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["train.early_steps=0.5"], "train.early_steps must be a number at least 1, got 0.5"),
        (["train.late=3"], "train.late must be a mapping or null, got 3"),
        (["problem=tsp", "train.late={after:0.5}"], "train.late must have after, instances, beam_width,"),
        (["train.late.after=1.5"], "train.late.after must be at most 1, got 1.5"),
        (["train.late.instances=0"], "train.late.instances must be a number above 0, got 0"),
        (["train.late.validate_every=0"], "train.late.validate_every must be an integer at least 1, got 0"),
        (["train.late.steps=2"], "there is no key train.late.steps; train.late has after, beam_width, capacity,"),
        (["train.dataset_capacity=null"], "train.late.capacity must be 1 without train.dataset_capacity"),
        (["train=supervised", "train.experts=x.npz", "train.late.after=0"], "train.late.after has no effect"),
        (["train.reorder_until=1.5"], "train.reorder_until must be at most 1, got 1.5"),
        (["train.importance=0"], "train.importance must be a number above 0, got 0"),
        (["train.importance=1.5"], "train.importance must be at most 1, got 1.5"),
        (
            ["train.importance=0.5", "train.reorder_until=1"],
            "train.importance must be 1 where train.reorder_until is 1",
        ),
        (["train=supervised", "train.experts=x.npz", "train.importance=0.5"], "train.importance has no effect"),
        (["problem=tsp", "train.reorder_until=0.5"], "train.reorder_until must be 1: tsp puts no decisions"),
    ],
)
def test_values_that_mean_nothing_are_refused(words, rule, tmp_path):
    result = typed(train, "problem=cvrp", *words, "debug=fast", cwd=tmp_path)
    assert result.returncode and rule in result.stderr and len(result.stderr.splitlines()) == 1
