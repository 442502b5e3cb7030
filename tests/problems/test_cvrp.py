"""The CVRP: costs, masks and states against plain Python."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gumbeldore.testing import problem_contract
from problems.cvrp import CVRP
from problems.cvrp.instances import Instance
from tests.helpers.routes import plain_load, plain_routes
from tests.helpers.solutions import random_solutions


def plain_length(coords, routes):
    total = 0.0
    for route in routes:
        stops = [0, *route, 0]
        total += sum(math.dist(coords[a], coords[b]) for a, b in zip(stops, stops[1:], strict=False))
    return total


def plain_is_legal(demands, capacity, actions):
    routes = plain_routes(actions, len(demands) - 1)
    if routes is None or sorted(itertools.chain(*routes)) != list(range(1, len(demands))):
        return False
    return all(plain_load(demands, route) <= capacity for route in routes)


def plain_legal_actions(demands, capacity, before):
    """The actions that may follow the decisions `before`, by the rule in words."""
    num_customers = len(demands) - 1
    routes = plain_routes(before, num_customers)
    visited = set(itertools.chain(*routes))
    legal = set()
    for customer in set(range(1, num_customers + 1)) - visited:
        fits = bool(routes) and plain_load(demands, routes[-1]) + demands[customer] <= capacity
        if fits:
            legal.add(customer - 1)
        if not fits or len(visited) < num_customers - 1:  # the last one is reached directly if it fits
            legal.add(num_customers + customer - 1)  # with an empty vehicle everything fits
    return legal


# ---- the rules


@pytest.mark.parametrize("nearest", [None, 1, 3])
@pytest.mark.parametrize("num_customers", [2, 3, 9])
def test_contract(num_customers, nearest):
    problem_contract(CVRP(num_customers, [9, 20], nearest=nearest))
    problem_contract(CVRP(num_customers, [200, 200], nearest=nearest), seed=1)


FIVE = Instance(torch.linspace(0, 1, 12).view(1, 6, 2), torch.tensor([[0, 3, 3, 3, 3, 3]]), torch.tensor([9]))


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ([0, 1, 2, 8, 9], "leaves the depot without coming from it"),
        ([5, 1, 2, 3, 9], "loads more than the capacity"),
        ([5, 1, 7, 1, 9], "does not visit every customer once"),
        ([5, 6, 0, 8, 9], "does not visit every customer once"),
        ([[5], [1], [2], [8], [4]], "5 customers take as many actions"),
        ([5, 1, 2, 8], "5 customers take as many actions"),
        ([5, 1, 2, 8, 4, 4], "5 customers take as many actions"),
        ([5, 1, 2, 8, 10], r"are 0\.\.9"),
        ([5, 1, 2, 8, -1], r"are 0\.\.9"),
    ],
)
def test_illegal_routes_are_refused(wrong, rule):
    with pytest.raises(ValueError, match=rule):
        CVRP(5, [9, 9]).cost(FIVE, torch.tensor([wrong]))
    assert CVRP(5, [9, 9]).cost(FIVE, torch.tensor([[5, 1, 7, 3, 4]])).isfinite()  # but loads of 6 and 9 fit


def test_the_refusal_names_the_row():
    five = Instance(*(field.expand(3, *field.shape[1:]) for field in FIVE))
    with pytest.raises(ValueError, match=r"row 1 loads more .*\[5, 1, 2, 3, 9\]"):
        CVRP(5, [9, 9]).cost(five, torch.tensor([[5, 1, 7, 3, 4], [5, 1, 2, 3, 9], [9, 8, 7, 6, 5]]))


def test_cost_accepts_exactly_the_legal_sequences():
    """All 6^3 sequences of 3 customers, and all 8^4 of 4, where some pairs fit and others do not."""
    for demands, capacity in (([0, 4, 5, 6], 10), ([0, 1, 2, 3, 4], 5)):
        num_customers = len(demands) - 1
        problem = CVRP(num_customers, [9, 9])
        coords = torch.linspace(0, 1, 2 * num_customers + 2).view(1, -1, 2)
        one = Instance(coords, torch.tensor([demands]), torch.tensor([capacity]))
        for actions in itertools.product(range(2 * num_customers), repeat=num_customers):
            try:
                accepted = problem.cost(one, torch.tensor([actions])).isfinite().item()
            except ValueError:
                accepted = False
            assert accepted == plain_is_legal(demands, capacity, actions), actions


@settings(deadline=None, max_examples=40, derandomize=True)
@given(
    num_customers=st.integers(2, 12),
    largest=st.integers(1, 50),
    spare=st.integers(0, 60),
    seed=st.integers(0, 2**32),
)
def test_states_and_masks_are_the_rule_and_random_play_is_legal(num_customers, largest, spare, seed):
    generator = torch.Generator().manual_seed(seed)
    demands = torch.randint(0, largest + 1, (5, num_customers + 1), generator=generator)
    demands[:, 0] = 0
    capacity = demands.amax(dim=1) + torch.randint(0, spare + 1, (5,), generator=generator)
    instance = Instance(torch.rand(5, num_customers + 1, 2, generator=generator), demands, capacity)
    problem = CVRP(num_customers, [9, 9])
    state, actions = problem.reset(instance), torch.empty(5, 0, dtype=torch.int64)
    for _ in range(num_customers):
        legal = problem.mask(instance, state)
        for row, before in enumerate(actions.tolist()):
            expected = plain_legal_actions(demands[row].tolist(), capacity[row].item(), before)
            assert set(legal[row].nonzero().flatten().tolist()) == expected and expected
            routes = plain_routes(before, num_customers)
            visited = list(itertools.chain(*routes))
            assert state.origin[row].item() == (visited[-1] if visited else 0)
            assert state.left[row] == capacity[row] - (plain_load(demands[row], routes[-1]) if routes else 0)
            assert state.remaining[row].tolist() == sorted(set(range(1, num_customers + 1)) - set(visited))
        actions = torch.cat([actions, torch.multinomial(legal.double(), 1, generator=generator)], dim=1)
        state = problem.step(instance, state, actions[:, -1])
    costs = problem.cost(instance, actions).tolist()
    for row, (cost, chosen) in enumerate(zip(costs, actions.tolist(), strict=True)):
        assert plain_is_legal(demands[row].tolist(), capacity[row].item(), chosen)
        length = plain_length(instance.coords[row].double().tolist(), plain_routes(chosen, num_customers))
        assert cost == pytest.approx(length, rel=1e-5)


# ---- what users see


def test_solutions_walk_from_depot_to_depot():
    problem = CVRP(7, [9, 30])
    _, actions = random_solutions(problem, 20)
    for row, count in zip(actions, problem.reports.describe(actions)["routes"].tolist(), strict=True):
        routes = plain_routes(row.tolist(), 7)
        walk = [0]
        for route in routes:
            walk += [*route, 0]
        assert problem.reports.solution(row) == walk and count == len(routes)


def test_random_instances_cover_their_ranges():
    instance = CVRP(6, [12, 15]).generate(2000, torch.Generator().manual_seed(0))
    assert instance.coords.shape == (2000, 7, 2) and instance.coords.min() >= 0 and instance.coords.max() <= 1
    assert (instance.demands[:, 0] == 0).all() and instance.demands.dtype == instance.capacity.dtype == torch.int64
    capacities, demands = Counter(instance.capacity.tolist()), Counter(instance.demands[:, 1:].flatten().tolist())
    assert sorted(capacities) == [12, 13, 14, 15] and min(capacities.values()) > 400  # 500 expected
    assert sorted(demands) == [*range(1, 10)] and min(demands.values()) > 1200  # 1333 expected
    assert set(CVRP(3, [9, 9]).generate(50, torch.Generator()).capacity.tolist()) == {9}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"num_customers": 1}, "num_customers must be at least 2, got 1"),
        ({"capacity": [8, 20]}, r"capacity must be .* at least 9, got \[8, 20\]"),
        ({"capacity": [20, 19]}, r"got \[20, 19\]"),
        ({"capacity": [20]}, r"got \[20\]"),
        ({"capacity": [20, 30, 40]}, r"got \[20, 30, 40\]"),
        ({"nearest": 0}, "nearest must be at least 1, all or null, got 0"),
        ({"validation_capacity": 8}, "validation_capacity must be at least 9 or null, got 8"),
    ],
)
def test_impossible_problems_are_refused(wrong, rule):
    with pytest.raises(ValueError, match=rule):
        CVRP(**{"num_customers": 5, "capacity": [20, 30], **wrong})


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"demands": torch.tensor([[0, 3, 3, -1, 3, 3]])}, "0..capacity, and 0 at the depot; not so in instance 0"),
        ({"demands": torch.tensor([[0, 3, 3, 10, 3, 3]])}, "within 0..capacity"),
        ({"demands": torch.tensor([[1, 3, 3, 3, 3, 3]])}, "within 0..capacity"),
        ({"coords": torch.full((1, 6, 2), math.nan)}, "coordinates must be numbers"),
        ({"capacity": torch.tensor([9, 9])}, "must be"),
    ],
)
def test_malformed_instances_are_refused(changes, rule):
    problem = CVRP(5, [9, 9])
    problem.check(FIVE)
    with pytest.raises(ValueError, match=rule):
        problem.check(FIVE._replace(**changes))
