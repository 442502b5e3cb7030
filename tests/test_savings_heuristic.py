"""The savings heuristic as a policy, against plain Python that makes its plan anew after every decision."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from gumbeldore import methods
from gumbeldore.search import search
from models.savings_heuristic import Savings, SavingsHeuristic
from problems.cvrp import CVRP
from problems.cvrp_types import decode
from tests.networks import attend_by
from tests.test_savings import plain_savings

CONFIGS = Path(__file__).parents[1] / "configs"


def driven(points, demands, capacity, shapes):
    """The customers in the order in which they are served, and whether from the depot; points[0] is the depot."""
    here, load, left, way = 0, 0, set(range(1, len(points))), []
    while left:
        nodes = [here, *sorted(left), 0]
        loads = [load if here else None, *(demands[node] for node in nodes[1:-1])]
        neighbours, first = plain_savings([points[node] for node in nodes], loads, capacity, shapes)
        depot = len(nodes) - 1
        following = [place for place in neighbours[0] if place != depot]
        if not following:
            waiting = [place for place in range(1, depot) if first[place] != 0]
            farthest = max(waiting, key=lambda place: math.dist(points[nodes[place]], points[0]))
            route = [place for place in waiting if first[place] == first[farthest]]
            load = 0
            place = next(place for place in route if depot in neighbours[place])
        else:
            (place,) = following
        here = nodes[place]
        load += demands[here]
        left.remove(here)
        way.append((here, not following))
    return way


@pytest.mark.parametrize("way", ["fused", "grid"])
@pytest.mark.parametrize(("customers", "capacity"), [(2, 9), (7, 12), (12, 30)])
@pytest.mark.parametrize("shapes", [1, [1, [1.6, 0.5], 0.8]], ids=str)
def test_greedy_search_drives_the_plan(shapes, customers, capacity, way, monkeypatch):
    attend_by(way, monkeypatch)
    problem = CVRP(customers, [capacity, capacity])
    instance = problem.generate(20, torch.Generator().manual_seed(1))
    heuristic = SavingsHeuristic(shapes)
    found = search(problem, heuristic, instance, methods.greedy(), torch.Generator())
    for row, actions in enumerate(found.actions[:, 0]):
        points, demands = instance.coords[row].double().tolist(), instance.demands[row].tolist()
        served, via_depot = decode(actions, customers)
        expected = driven(points, demands, capacity, heuristic.shapes.tolist())
        assert list(zip(served.tolist(), via_depot.tolist(), strict=True)) == expected


def test_it_plans_for_the_nearest_customers_where_only_those_are_looked_at():
    costs = []
    for nearest in (None, 15, 3):
        problem = CVRP(15, [30, 30], nearest=nearest)
        instance = problem.generate(50, torch.Generator().manual_seed(2))
        found = search(problem, SavingsHeuristic(1), instance, methods.greedy(), torch.Generator())
        costs.append(problem.cost(instance, found.actions[:, 0]))  # refuses what is no solution
    assert torch.equal(costs[0], costs[1]) and costs[0].mean() < costs[2].mean()


def test_a_heuristic_needs_a_shape():
    for none in (0, []):
        with pytest.raises(ValueError, match="the savings heuristic needs a route shape, got none"):
            SavingsHeuristic(none)
    with pytest.raises(ValueError, match="a list of route shapes: numbers of 0.001"):
        Savings([1.0, -1.0])


def test_an_evaluation_compares_with_the_plans_that_the_preset_sees():
    network, heuristic = (
        OmegaConf.load(CONFIGS / path) for path in ("model/bq_cvrp_small.yaml", "search/savings.yaml")
    )
    assert network.savings == heuristic.shapes
