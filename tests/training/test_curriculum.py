"""What training adds to the paper's recipe: instances that grow, orders of decisions, greedy experts."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.testing import problem_contract
from gumbeldore.training.dataset import PseudoExperts, Shard
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.learners import trained
from tests.helpers.solutions import random_solutions

PROGRESS = (0.0, 0.125, 0.25, 0.5, 0.9)


def test_routing_instances_grow_linearly():
    tsp, cvrp = TSP(20, grow=[8, 0.5]), CVRP(20, [30, 40], far_first=True, grow=[8, 0.5])
    assert [tsp.curriculum(progress).num_nodes for progress in PROGRESS] == [8, 11, 14, 20, 20]
    assert [cvrp.curriculum(progress).num_customers for progress in PROGRESS] == [8, 11, 14, 20, 20]
    small = cvrp.curriculum(0.25)
    assert small.capacity == cvrp.capacity and small.far_first
    assert small.generate(3, torch.Generator()).coords.shape == (3, 15, 2)
    assert TSP(20).curriculum(0.0).num_nodes == 20 and TSP(5, grow=[8, 0.5]).curriculum(0.0).num_nodes == 5


def test_schedules_grow_in_both_dimensions():
    problem = JSSP([[6, 6], [10, 5]], [[6, 6]], reversal=True, grow=[[4, 4], 0.5])
    full, sizes = [(6, 6), (10, 5)], [problem.curriculum(progress).sizes for progress in PROGRESS]
    assert sizes == [[(4, 4), (4, 4)], [(4, 4), (6, 4)], [(5, 5), (7, 4)], full, full]
    assert problem.curriculum(0.25).reversal
    assert JSSP([[3, 6]], [[6, 6]], grow=[[4, 4], 0.5]).curriculum(0.0).sizes == [(3, 4)]  # nothing shrinks
    steady = JSSP([[4, 4], [5, 5]], [[6, 6]])
    assert steady.curriculum(0.0) is steady


@pytest.mark.parametrize(
    ("problem", "sizes"),
    [
        (TSP, {"num_nodes": 9, "grow": [5, 0.5]}),
        (CVRP, {"num_customers": 9, "capacity": [30, 30], "grow": [5, 0.5]}),
        (JSSP, {"sizes": [[4, 4]], "validation_sizes": [[4, 4]], "grow": [[2, 2], 0.5]}),
    ],
)
def test_subclasses_train_on_instances_of_their_own(problem, sizes):
    class Small(problem):
        def generate(self, n, generator):
            instance = super().generate(n, generator)
            return type(instance)(instance[0] / 1000, *instance[1:])

    problem_contract(Small(**sizes))
    for progress in PROGRESS:
        small = Small(**sizes).curriculum(progress).generate(2, torch.Generator().manual_seed(0))
        assert small[0].max() < 0.1


@pytest.mark.parametrize("grow", [[2, 0.5], [8, 0.0], [8, 1.5], [8], [8, True], [8, float("nan")]])
def test_impossible_growth_is_refused(grow):
    with pytest.raises(ValueError, match="grow must be"):
        TSP(20, grow=grow)
    with pytest.raises(ValueError, match="grow must be"):
        CVRP(20, [30, 30], grow=[1, *grow[1:]])
    with pytest.raises(ValueError, match="grow must be"):
        JSSP([[4, 4]], [[4, 4]], grow=[[4, grow[0] - 2], *grow[1:]])
    with pytest.raises(ValueError, match="grow must be"):
        JSSP([[4, 4]], [[4, 4]], grow=[4, 0.5])
    with pytest.raises(ValueError, match="at least two operations"):
        JSSP([[4, 4]], [[4, 4]], grow=[[1, 1], 0.5])


def test_training_asks_for_the_size_of_its_epoch(monkeypatch):
    seen = []

    def curriculum(self, progress):
        seen.append(progress)
        return TSP(5 + len(seen))

    monkeypatch.setattr(TSP, "curriculum", curriculum)
    monkeypatch.setattr(PseudoExperts, "clear", lambda self: None)
    train_state, _ = trained(epochs=3)
    assert seen == [0.0, 1 / 3, 2 / 3]
    assert train_state.dataset.shards[-1].instances.coords.shape[1] == 8


# ---- the order of decisions


class AsSampled(CVRP):
    def reorder(self, instance, actions, step, generator):
        return actions


def test_an_example_is_in_the_problems_order_or_in_the_experts_own():
    """Routes of random solutions: by their farthest customers, or as they are."""
    dataset = PseudoExperts()
    problems = {True: CVRP(8, [12, 14], far_first=True), False: AsSampled(8, [12, 14])}
    instances, actions = random_solutions(problems[True], 50)
    dataset.add(Shard("random", instances, actions, problems[True].cost(instances, actions)))
    own = {tuple(row) for row in actions.tolist()}
    for reorder, problem in problems.items():
        steps = set()
        for seed in range(40):
            rest = dataset.batch(problem, 20, torch.Generator().manual_seed(seed)).remaining_actions
            steps.add(rest.shape[1])
            ends = {row[-rest.shape[1] :] for row in own}
            same = [tuple(row) in ends for row in rest.tolist()]
            assert reorder or all(same)
            if reorder and rest.shape[1] > 4:
                assert not all(same)
        assert steps == set(range(2, 9))  # the last decision is forced
