"""Random TSPs and CVRPs whose nodes are not uniform: where they lie, how often, with which depots and demands."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.testing import problem_contract
from problems.cvrp import CVRP
from problems.cvrp.uchoa import with_depots_and_demands
from problems.routing.distributions import DISTRIBUTIONS, drawn, explosion, implosion, uniform, weights_of
from problems.tsp import TSP

EVERYTHING = [["uniform", 2], ["clustered"], ["explosion", 0.5], ["implosion", 1]]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def to_nearest(nodes):
    """The distance [n] of a node to the nearest other one, on average."""
    return (torch.cdist(nodes, nodes) + 9 * torch.eye(nodes.shape[1])).amin(dim=2).mean(dim=1)


@pytest.mark.parametrize("distribution", [None, [["uniform"]], [["uniform", 7]]])
def test_uniform_instances_are_what_they_were(distribution):
    generator = seeded()
    coords, cvrp_coords = torch.rand(9, 12, 2, generator=seeded()), torch.rand(9, 12, 2, generator=generator)
    demands = torch.randint(1, 10, (9, 12), generator=generator)
    capacity = torch.randint(20, 31, (9,), generator=generator)
    assert torch.equal(TSP(12, distribution=distribution).generate(9, seeded()).coords, coords)
    instance = CVRP(11, [20, 30], distribution=distribution).generate(9, seeded())
    assert torch.equal(instance.coords, cvrp_coords) and torch.equal(instance.capacity, capacity)
    assert torch.equal(instance.demands[:, 1:], demands[:, 1:])


def test_each_instance_draws_its_distribution_by_the_weights():
    rows = drawn(weights_of([["uniform", 3], ["clustered", 1]]), 4000, seeded())
    assert torch.equal(torch.cat([*rows.values()]).sort().values, torch.arange(4000))
    assert abs(len(rows["clustered"]) - 1000) < 137  # 5 standard deviations: false in one of a million seeds
    both = TSP(50, distribution=[["uniform", 3], ["clustered", 1]]).generate(4000, seeded())
    distance = to_nearest(both.coords)
    assert distance[rows["clustered"]].mean() < 0.75 * distance[rows["uniform"]].mean()
    heavy = drawn(weights_of([["uniform", 1e300], ["implosion", 1e290]]), 50, seeded())
    assert len(heavy["uniform"]) == 50 and not len(heavy["implosion"])


@pytest.mark.parametrize("count", [2, 5, 60])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_all_nodes_lie_in_the_unit_square(name, count):
    nodes = DISTRIBUTIONS[name](500, count, seeded(count))
    assert nodes.shape == (500, count, 2) and nodes.dtype == torch.float32
    assert nodes.min() >= 0 and nodes.max() <= 1 and len(nodes.unique(dim=0)) == 500


def test_an_explosion_leaves_a_disc_empty():
    """The largest empty disc whose centre is in the square; with 400 uniform nodes its radius is about 0.1."""
    ticks = torch.linspace(0, 1, 51)
    places = torch.cartesian_prod(ticks, ticks).expand(40, -1, -1)
    hole, usual = (
        torch.cdist(places, each(40, 400, seeded())).amin(dim=2).amax(dim=1) for each in (explosion, uniform)
    )
    assert hole.mean() > 1.5 * usual.mean() and (hole > usual).sum() > 35


def test_an_implosion_fills_the_middle_of_a_disc():
    """The most nodes within 0.03 of a node; 400 uniform ones have about one there on average."""
    heap, usual = (
        (torch.cdist(nodes, nodes) < 0.03).sum(dim=2).amax(dim=1).double()
        for nodes in (implosion(40, 400, seeded()), uniform(40, 400, seeded()))
    )
    assert heap.mean() > 2 * usual.mean() and (heap > usual).sum() > 35


def test_clustered_routes_begin_in_three_kinds_of_depots_and_serve_as_many_customers_as_before():
    before = CVRP(20, [20, 40]).generate(3000, seeded())
    after = with_depots_and_demands(before, torch.arange(3000), seeded(1))
    CVRP(20, [20, 40]).check(after)
    depots = after.coords[:, 0]
    for place in (0.5, 0.0):
        assert abs(int((depots == place).all(dim=1).sum()) - 1000) < 130  # 5 standard deviations
    assert torch.equal(after.coords[:, 1:], before.coords[:, 1:])
    for capacity, wanted, demands in zip(after.capacity, before.capacity, after.demands[:, 1:], strict=True):
        assert capacity == max(math.ceil(int(wanted) * int(demands.sum()) / 100), int(demands.max()))
    ranges = set(zip(after.demands[:, 1:].amin(dim=1).tolist(), after.demands.amax(dim=1).tolist(), strict=True))
    assert {(1, 1), (1, 10), (5, 10)} <= ranges and max(highest for _, highest in ranges) == 100


def test_demands_by_quadrant():
    one = CVRP(4, [30, 30]).generate(1, seeded())
    corners = torch.tensor([[0.5, 0.5], [0.9, 0.9], [0.1, 0.9], [0.1, 0.1], [0.9, 0.1]])
    many = take(one, torch.zeros(2000, dtype=torch.int64))
    many = many._replace(coords=corners.expand(2000, -1, -1))
    demands = with_depots_and_demands(many, torch.arange(2000), seeded()).demands[:, 1:].double()
    by_quadrant = (demands[:, ::2].amin(dim=1) > 50) & (demands[:, 1::2].amax(dim=1) < 50)
    assert by_quadrant.double().mean() > 1 / 7 - 0.04  # 5 standard deviations; few others look so


def test_other_instances_keep_their_depots_and_demands():
    problem = CVRP(10, [20, 20], distribution=[["uniform"], ["clustered"]])
    rows, instance = drawn(problem.weights, 300, seeded()), problem.generate(300, seeded())
    assert (instance.capacity[rows["uniform"]] == 20).all() and instance.demands[rows["uniform"]].max() == 9
    assert (instance.capacity[rows["clustered"]] != 20).any() and instance.demands[rows["clustered"]].max() > 90
    assert not (instance.coords[rows["uniform"], 0] == 0.5).any()


def test_contracts_hold_and_instances_grow():
    problem_contract(TSP(9, grow=[5, 0.5], distribution=EVERYTHING), n=12)
    problem_contract(CVRP(9, [20, 30], grow=[5, 0.5], distribution=EVERYTHING), n=12)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ("clustered", "distribution must be like .* or null, got clustered"),
        ([], "distribution must be like"),
        ([["gaussian", 1]], r"a name of uniform, clustered, explosion, implosion, got \['gaussian', 1\]"),
        ([["uniform", 3], ["clustered", 0]], r"weight above 0.*got \['clustered', 0\]"),
        ([["clustered", -1]], "weight above 0"),
        ([["clustered", math.nan]], "weight above 0"),
        ([["clustered", "2"]], "weight above 0"),
        ([["clustered", 1, 2]], "weight above 0"),
        (["clustered"], "got clustered"),
        ([[]], r"got \[\]"),
        ([["clustered"], ["uniform"], ["clustered", 2]], "clustered comes twice"),
    ],
)
def test_impossible_distributions_are_refused(wrong, rule):
    for problem, size in (TSP, {"num_nodes": 5}), (CVRP, {"num_customers": 5, "capacity": [9, 9]}):
        with pytest.raises(ValueError, match=rule):
            problem(**size, distribution=wrong)


@pytest.mark.parametrize("weight", [True, "3", None, 0, -1, math.nan, math.inf])
def test_a_weight_is_a_number_above_0(weight):
    with pytest.raises(ValueError, match=r"a distribution is \[name\] or \[name, weight above 0\]"):
        weights_of([["uniform", weight]])
