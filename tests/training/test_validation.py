"""How good a policy is greedily, and which one is the best from now on."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.optimizer import Optimizers
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import Quality, quality_of, validation_set
from problems.tsp import TSP


def test_the_gap_is_that_of_the_instances_that_have_a_reference():
    (instance_set,) = validation_set(TSP(5), 3, seed=0)
    costs = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    for known, gap in (([1.0, math.nan, 4.0], 0.625), ([math.nan] * 3, math.nan)):
        references = torch.tensor(known, dtype=torch.float64)
        quality = quality_of(TSP(5), [instance_set._replace(references=references)], [costs])
        assert quality.gap == pytest.approx(gap, nan_ok=True) and quality.cost == pytest.approx(10 / 3)
        assert quality.costs == {}


def test_the_cost_is_the_mean_over_the_instances_of_all_sizes():
    sizes = [*validation_set(TSP(7), 1, seed=0), *validation_set(TSP(5), 3, seed=0)]
    costs = [torch.tensor([6.0], dtype=torch.float64), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)]
    quality = quality_of(TSP(7), sizes, costs)
    assert quality.cost == 3 and quality.costs == {"7": 6, "5": 2}


def test_a_policy_of_lower_cost_is_the_best_from_now_on():
    """Of equally good ones the old one stays."""
    state = TrainState(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1), Optimizers(), PseudoExperts())
    found = []
    for number, cost in enumerate((2.0, 2.0, 3.0, 1.0)):
        torch.nn.init.constant_(state.policy.weight, number)
        improved = state.accept(Quality(cost, cost / 10, {}))
        found.append((improved, state.best.weight.item(), state.best_cost, state.best_gap))
    assert found == [(True, 0, 2, 0.2), (False, 0, 2, 0.2), (False, 0, 2, 0.2), (True, 3, 1, 0.1)]
