"""The CVRP: costs, masks and states against plain Python, and the order in which routes are imitated."""

from __future__ import annotations

import cmath
import itertools
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gumbeldore import methods, problem_contract, search
from problems.cvrp import CVRP
from problems.cvrp.instances import Instance
from tests.helpers.policies import FixedPolicy
from tests.helpers.routes import plain_load, plain_routes
from tests.helpers.solutions import random_solutions
from tests.helpers.tensors import same_tensors


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
        (
            {"demands": torch.tensor([[0, 3, 3, -1, 3, 3]])},
            "demands must be within 0..capacity, and 0 at the depot; not so in instance 0",
        ),
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


# ---- search


@pytest.mark.parametrize(("num_customers", "capacity"), [(3, 9), (3, 40), (4, 12), (4, 18)])
def test_exhaustive_sampling_finds_the_optimum_and_every_solution_that_ends_directly(num_customers, capacity):
    problem = CVRP(num_customers, [capacity, capacity])
    instance = problem.generate(3, torch.Generator().manual_seed(5))
    found = search(
        problem, FixedPolicy(problem), instance, methods.WithoutReplacement(16, 20), torch.Generator().manual_seed(0)
    )
    assert found.stats.rounds < 20 and not found.stats.full
    for row in range(3):
        demands, coords = instance.demands[row].tolist(), instance.coords[row].double().tolist()
        sequences = itertools.product(range(2 * num_customers), repeat=num_customers)
        legal = {actions for actions in sequences if plain_is_legal(demands, capacity, actions)}
        leaves = [tuple(actions) for actions in found.actions[row][found.valid[row]].tolist()]
        ends = {actions for actions in legal if actions[-1] in plain_legal_actions(demands, capacity, actions[:-1])}
        assert len(leaves) == len(set(leaves)) and set(leaves) == ends < legal
        optimum = min(plain_length(coords, plain_routes(actions, num_customers)) for actions in legal)
        assert found.best()[1][row].item() == pytest.approx(optimum, rel=1e-6)


# ---- the order in which routes are imitated, and the states that are learnt from


def via_depot_at_last(actions):
    """Solutions, such as a solver's, that drive to the last customer via the depot whether its load fits or not."""
    num_customers = actions.shape[1]
    return torch.cat([actions[:, :-1], actions[:, -1:] % num_customers + num_customers], dim=1)


def shortfall(instance, row, route):
    """Capacity left over at the end of a route, from the route's own customers."""
    return instance.capacity[row].item() - plain_load(instance.demands[row].tolist(), route)


def nearness(instance, row, route):
    """Minus the distance of the farthest customer of a route from the depot."""
    coords = instance.coords[row].double()
    return -max(math.dist(coords[0], coords[customer]) for customer in route)


def imitated(problem, instance, actions, step, generator):
    """The example that training makes of a solution."""
    instance, actions = problem.augment(instance, actions, step, generator)
    return instance, problem.reorder(instance, actions, step, generator)


@pytest.mark.parametrize("far_first", [False, True])
@pytest.mark.parametrize("step", range(10))
def test_augmented_solutions_are_the_same_routes_in_a_learnable_order(step, far_first):
    problem, rank = CVRP(10, [12, 25], far_first=far_first), nearness if far_first else shortfall
    instance, actions = random_solutions(problem, 100, seed=step)
    other, moved = imitated(problem, instance, actions, step, torch.Generator().manual_seed(step))
    directly = turned = 0
    assert torch.equal(other.demands, instance.demands) and torch.equal(other.capacity, instance.capacity)
    assert other.coords.min() >= -1e-6 and other.coords.max() <= 1 + 1e-6
    factor = problem.cost(other, actions) / problem.cost(instance, actions)
    distances = [torch.cdist(coords, coords) for coords in (instance.coords.double(), other.coords.double())]
    assert torch.allclose(distances[1], distances[0] * factor[:, None, None], atol=1e-5) and factor.std() > 0.01
    for row in range(100):
        before, after = (plain_routes(a[row].tolist(), 10) for a in (actions, moved))
        assert min(shortfall(instance, row, route) for route in after) >= 0
        if sorted(after[-1]) not in map(sorted, before):  # a route of one customer, which has joined the one before
            directly += 1
            after = [*after[:-1], after[-1][:-1], after[-1][-1:]]
        elif len(after[-1]) == 1:
            assert shortfall(instance, row, after[-2] + after[-1]) < 0
        assert sorted(map(sorted, before)) == sorted(map(sorted, after))
        both_ways = [*before, *(route[::-1] for route in before)]
        assert all(route in both_ways for route in after)
        turned += sum(route not in before for route in after)
        if far_first:
            assert all(nearness(instance, row, route[:1]) <= nearness(instance, row, route[-1:]) for route in after)
        # The routes that end in the piece are sorted, and the piece ends with the last of them.
        ranks, last_of = [rank(instance, row, route) for route in after], list(itertools.accumulate(map(len, after)))
        piece = [rank for rank, last in zip(ranks, last_of, strict=True) if last > step]
        assert piece == sorted(piece)
        turns = sum(a > b for a, b in zip(ranks, ranks[1:], strict=False))
        assert turns <= (step > 0)  # the prefix is the rest of the sorted solution, which begins anew once
    assert directly > 0 and turned > 50


def test_in_a_view_a_sweep_around_the_depot_meets_the_routes_one_after_the_other():
    """By directions in plain numbers; the first route and the side to which the ray turns are random."""
    problem = CVRP(10, [12, 25], nearest=9)
    instance, actions = random_solutions(CVRP(10, [12, 25]), 100)
    moved = problem.reorder(instance, actions, 0, torch.Generator().manual_seed(0))
    sides = Counter()
    for row in range(100):
        before, after = (plain_routes(a[row].tolist(), 10) for a in (actions, moved))
        after = [
            route for route in after if sorted(route) in map(sorted, before)
        ]  # a customer may have joined the last
        depot, *others = (complex(*point) for point in instance.coords[row].tolist())
        places = [[others[customer - 1] - depot for customer in route] for route in after]
        centres = [cmath.phase(sum(route)) for route in places]

        def turns(a, b):
            """From direction a to direction b, either way round."""
            return (b - a) % math.tau, (a - b) % math.tau

        total = [sum(turns(a, b)[side] for a, b in itertools.pairwise(centres)) for side in (0, 1)]
        side = min((0, 1), key=total.__getitem__)
        assert total[side] < math.tau + 1e-6
        if len(after) > 2:
            sides[side] += 1
            for centre, route in zip(centres, places, strict=True):
                begin, end = (
                    (turns(centre, cmath.phase(route[place]))[side] + math.pi) % math.tau for place in (0, -1)
                )
                assert begin <= end + 1e-6
    assert min(sides.values()) > 15  # of about 100; both ways round are as likely


@pytest.mark.parametrize("expert", [lambda actions: actions, via_depot_at_last], ids=["sampled", "via the depot"])
@pytest.mark.parametrize("step", [0, 4, 8])
def test_examples_are_decisions_that_the_search_can_meet(step, expert):
    problem = CVRP(10, [12, 25])
    instance, actions = random_solutions(problem, 200)
    actions = expert(actions)
    other, moved = imitated(problem, instance, actions, step, torch.Generator().manual_seed(1))
    state = problem.reset(other)
    for action in moved.T:
        assert problem.mask(other, state).gather(1, action[:, None]).all()
        state = problem.step(other, state, action)
    gained = problem.cost(other, actions) - problem.cost(other, moved)
    assert gained.min() > -1e-5 and (gained > 0.01).any()  # of the last customers that join another route


def test_a_customer_that_is_alone_is_the_last_and_the_first():
    problem, alone = CVRP(2, [9, 9]), Instance(torch.rand(3, 2, 2), torch.tensor([[0, 5]] * 3), torch.full((3,), 9))
    actions = torch.ones(3, 1, dtype=torch.int64)
    assert problem.last_choice(alone) == 0
    assert problem.mask(alone, problem.reset(alone)).tolist() == [[False, True]] * 3
    assert torch.equal(problem.reorder(alone, actions, 0, torch.Generator()), actions)


THREE_ROUTES = [10, 1, 2, 3, 14, 5, 6, 17, 8, 9]  # 1 2 3 4 | 5 6 7 | 8 9 10


def three_routes(n, demands):
    coords = torch.rand(1, 11, 2, generator=torch.Generator().manual_seed(0)).expand(n, -1, -1)
    instance = Instance(coords, torch.tensor([demands]).expand(n, -1), torch.full((n,), 12))
    return instance, torch.tensor([THREE_ROUTES]).expand(n, -1)


@pytest.mark.parametrize("step", range(10))
def test_every_late_enough_route_is_the_last_equally_often(step):
    """Leftovers 4, 0 and 2: sorted 5 6 7 | 8 9 10 | 1 2 3 4, whose routes end after 3, 6 and 10 decisions."""
    instance, actions = three_routes(3000, [0, 2, 2, 2, 2, 4, 4, 4, 3, 3, 4])
    _, moved = imitated(CVRP(10, [12, 12]), instance, actions, step, torch.Generator().manual_seed(step))
    by_end = {3: (5, 6, 7), 6: (8, 9, 10), 10: (1, 2, 3, 4)}
    late_enough = {route for end, route in by_end.items() if end >= 10 - step}  # 10 - step decisions fit before it
    seen = Counter(tuple(sorted(plain_routes(row, 10)[-1])) for row in moved.tolist())
    assert set(seen) == late_enough
    assert all(abs(count - 3000 / len(late_enough)) < 150 for count in seen.values())


def test_routes_turn_independently_and_ties_come_in_any_order():
    """All routes leave nothing over: 3! orders times 2^3 directions."""
    instance, actions = three_routes(4000, [0, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4])
    _, moved = imitated(CVRP(10, [12, 12]), instance, actions, 0, torch.Generator().manual_seed(0))
    seen = Counter(tuple(row) for row in moved.tolist())
    assert len(seen) == 48 and min(seen.values()) > 40  # 83 expected


def test_augmentation_leaves_its_arguments_alone_and_depends_on_the_generator_alone():
    problem = CVRP(10, [12, 25])
    instance, actions = random_solutions(problem, 20)
    copies = Instance(*(field.clone() for field in instance)), actions.clone()
    a, b = (imitated(problem, instance, actions, 6, torch.Generator().manual_seed(2)) for _ in range(2))
    assert same_tensors(instance, copies[0]) and torch.equal(actions, copies[1])
    assert same_tensors(a[0], b[0]) and torch.equal(a[1], b[1])
