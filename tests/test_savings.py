"""The savings heuristic on the rest of a CVRP, against the sorted list it is usually taught by."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from models import savings as table
from models.savings import checked_shapes, savings_plan
from tests.networks import attend_by

WAYS = ("fused", "grid")  # in C++ and by torch
ONE, SHAPES = checked_shapes(1), checked_shapes([1, [1.6, 0.5], [0.8, -0.4]])
LAST_IS_BEST = [3] * 16 + [1]  # sixteen are planned at once


def test_shapes_by_number_and_in_a_list():
    assert ONE.tolist() == [[1, 0]] and torch.equal(checked_shapes(3), torch.tensor(table.SHAPES[:3]))
    assert torch.equal(checked_shapes([0.6, [1.6, 0.5], 1]), torch.tensor([[0.6, 0], [1.6, 0.5], [1, 0]]))
    assert checked_shapes(0).shape == checked_shapes([]).shape == (0, 2)


def plain_savings(points, loads, capacity, shapes):
    """The neighbours of each node, a list of two for each (the depot is the last), and the first node of its route.

    Arguments:
        points: of the vehicle, the customers and the depot
        loads: of the vehicle, None if it is in the depot, and of the customers
        shapes: of the shortest of whose plans, pairs of numbers
    """
    plans = [plain_plan(points, loads, capacity, *shape) for shape in dict.fromkeys(map(tuple, shapes))]
    return min(plans, key=lambda plan: plan[0])[1:]


def plain_plan(points, loads, capacity, way, difference):
    """The length of the routes, neighbours and first nodes as above."""
    depot = len(points) - 1
    routes = [([node], load) for node, load in enumerate(loads) if load is not None]
    pairs = [(i, j) for j in range(depot) for i in range(j) if loads[i] is not None]
    home = [math.dist(point, points[depot]) for point in points]
    saved = {
        (i, j): home[i] + home[j] - way * math.dist(points[i], points[j]) + difference * abs(home[i] - home[j])
        for i, j in pairs
    }
    for i, j in sorted(pairs, key=saved.get, reverse=True):
        (a, load), (b, other) = (next(route for route in routes if node in route[0]) for node in (i, j))
        # Where a route may be joined: at its ends, but the vehicle only at the one that is not where it has come from.
        ends = [{route[0], route[-1]} if 0 not in route else {route[-1]} for route in (a, b)]
        if saved[i, j] <= 0 or a is b or i not in ends[0] or j not in ends[1] or load + other > capacity:
            continue
        routes = [route for route in routes if route[0] is not a and route[0] is not b]
        a, b = (a if a[-1] == i else a[::-1]), (b if b[0] == j else b[::-1])
        route = [*a, *b]
        routes.append((route[::-1] if 0 in route and route[0] != 0 else route, load + other))
    neighbours, first, length = [[depot, depot] for _ in points], list(range(depot + 1)), 0.0
    for route, _ in routes:
        stops = [depot, *route, depot]
        length += sum(math.dist(points[i], points[j]) for i, j in pairwise(stops))
        for before, here, after in zip(stops[:-2], route, stops[2:], strict=True):
            neighbours[here], first[here] = [before, after], min(route)
    return length, neighbours, first


def states(rows, customers, capacity, seed):
    """Vehicles of which some are in the depot."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(rows, customers + 2, 2, generator=generator)
    load = torch.randint(1, 10, (rows, customers + 1), generator=generator)
    load[:, 0] = torch.randint(1, capacity + 1, (rows,), generator=generator)
    home = torch.rand(rows, generator=generator) < 0.3
    points[home, 0] = points[home, -1]
    load[home, 0] = capacity + 1
    return points, load, torch.full((rows,), capacity)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shapes", [[1], [0.6], [[1.2, 0.6]], SHAPES.tolist(), 16, LAST_IS_BEST, 32], ids=str)
@pytest.mark.parametrize(("customers", "capacity"), [(0, 9), (1, 9), (2, 30), (9, 9), (12, 30), (20, 30), (33, 500)])
def test_it_joins_what_the_sorted_list_of_savings_does(customers, capacity, shapes, way, monkeypatch):
    attend_by(way, monkeypatch)
    shapes = checked_shapes(shapes)
    points, load, limit = states(6 if len(shapes.unique(dim=0)) > 3 else 60, customers, capacity, seed=customers)
    plan = savings_plan(points, load, limit, shapes)
    for row in range(len(load)):
        loads = load[row].tolist()
        loads[0] = None if loads[0] > capacity else loads[0]
        neighbours, first = plain_savings(points[row].double().tolist(), loads, capacity, shapes.tolist())
        assert [sorted(pair) for pair in plan.links[row].tolist()] == [sorted(pair) for pair in neighbours]
        assert plan.route[row].tolist() == first


@pytest.mark.parametrize("way", WAYS)
def test_a_case_by_hand(way, monkeypatch):
    """The depot at 0, customers at (3, 1), 2, -1 and -4, two to a vehicle, which is at 1 with one aboard.

    On a line the saving of two on the same side is twice the way to the nearer one: 2 for the vehicle with the second
    customer, a little less with the first, 2 for the last two; but 3.7 for the first two. So these pair up, and the
    vehicle goes home; or where there is room for three, to the second customer, from whom the first is next.
    """
    attend_by(way, monkeypatch)
    points = torch.tensor([[[1.0, 0], [3, 1], [2, 0], [-1, 0], [-4, 0], [0, 0]]])
    plan = savings_plan(points, torch.ones(1, 5, dtype=torch.int64), torch.tensor([2]), ONE)
    assert plan.links[0].sort(dim=1).values.tolist() == [[5, 5], [2, 5], [1, 5], [4, 5], [3, 5], [5, 5]]
    assert plan.route[0].tolist() == [0, 1, 1, 3, 3, 5]
    plan = savings_plan(points, torch.ones(1, 5, dtype=torch.int64), torch.tensor([3]), ONE)
    assert plan.links[0].sort(dim=1).values.tolist() == [[2, 5], [2, 5], [0, 1], [4, 5], [3, 5], [5, 5]]
    assert plan.route[0].tolist() == [0, 0, 0, 3, 3, 5]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("far", [0.0, 1e30, math.inf, math.nan])
def test_equal_savings_and_what_is_no_number_make_legal_routes(far, way, monkeypatch):
    """Customers in the corners of a square, several in each; and some so far away that distances are not finite."""
    attend_by(way, monkeypatch)
    points, load, limit = states(40, 15, 20, seed=3)
    points = points.round()
    points[:, 4] += far
    plan = savings_plan(points, load, limit, SHAPES)
    for row, (links, loads) in enumerate(zip(plan.links.tolist(), load.tolist(), strict=True)):
        assert links[-1] == [16, 16] and links[0][0] == 16 and plan.route[row, -1] == 16
        assert all(here in links[there] for here, pair in enumerate(links) for there in pair if there < 16)
        left = set(range(16))
        while left:
            route, open_ = set(), {min(left)}
            while open_:
                route |= open_
                open_ = {there for here in open_ for there in links[here] if there < 16} - route
            assert sum(loads[node] for node in route) <= 20 or len(route) == 1
            assert sum(links[node].count(16) for node in route) == 2  # a way, not a circle
            assert {plan.route[row, node].item() for node in route} == {min(route)}
            left -= route


@pytest.mark.parametrize("way", WAYS)
def test_equal_savings_in_a_circle_are_joined(way, monkeypatch):
    """Four customers in the corners of a rectangle around depot and vehicle, where each has two that save as much."""
    attend_by(way, monkeypatch)
    points = torch.tensor([[[0.5, 0.5], [0.75, 1], [0.25, 1], [0.25, 0], [0.75, 0], [0.5, 0.5]]])
    plan = savings_plan(points, torch.tensor([[11, 1, 1, 1, 1]]), torch.tensor([10]), ONE)
    assert (plan.links[0, 1:5] == 5).sum() == 2  # one route


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("times", [2**25, 2**40])
def test_capacities_of_any_size(times, way, monkeypatch):
    attend_by(way, monkeypatch)
    points, load, limit = states(20, 12, 30, seed=5)
    usual = savings_plan(points, load, limit, SHAPES)
    many = savings_plan(points, load * times, limit * times, SHAPES)
    assert all(torch.equal(a, b) for a, b in zip(usual, many, strict=True))


def test_both_ways_and_any_number_of_threads_agree(monkeypatch):
    points, load, limit = states(300, 60, 50, seed=6)
    threads = torch.get_num_threads()
    plans = []
    for way, number in (("fused", 1), ("fused", 3), ("grid", 1)):
        attend_by(way, monkeypatch)
        torch.set_num_threads(number)
        plans.append(savings_plan(points, load, limit, SHAPES))
        torch.set_num_threads(threads)
    for plan in plans:
        assert torch.equal(plan.links.sort(dim=2).values, plans[0].links.sort(dim=2).values)
        assert torch.equal(plan.route, plans[0].route)
