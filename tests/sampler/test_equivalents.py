"""Equivalent instances: the same solutions, searched from several sides."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.job_shop import JobShop
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.routing.plane import symmetric
from problems.tsp import TSP
from tests.helpers.networks import awake

KEYS = torch.arange(12) * 7919
CASES = {
    "tsp": (TSP(9), lambda: BQ(16, 1, 2, 32, canonical_coordinates=False, successor_loss=0), 72),
    "cvrp": (CVRP(8, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, canonical_coordinates=False, route_loss=0), 8),
    "jssp": (JSSP([[3, 4]], [[3, 4]]), lambda: JobShop(16, 1, 2, 32, lookahead=False, order_loss=0), 2),
}


def case(name):
    problem, network, most = CASES[name]
    torch.manual_seed(1)
    instances = problem.generate(len(KEYS), torch.Generator().manual_seed(2))
    as_double = (field.double() if field.is_floating_point() else field for field in instances)
    return problem, awake(network()).double(), type(instances)(*as_double), most


@pytest.mark.parametrize(
    "method", [methods.Greedy(), methods.WithoutReplacement(3, 2), methods.Sampling(2, 2), methods.Tasar(2, 1, 3)]
)
@pytest.mark.parametrize("name", CASES)
def test_the_best_of_all_is_never_worse_and_sometimes_better(name, method):
    problem, policy, instances, most = case(name)
    count = min(most, 11)
    one = search(problem, policy, instances, method, keys=KEYS)
    all_of = search(problem, policy, instances, methods.Equivalents(method, count), keys=KEYS)
    assert all_of.actions.shape[1] == count * one.actions.shape[1]
    flat = all_of.actions.flatten(0, 1)
    rows = torch.arange(len(KEYS)).repeat_interleave(all_of.actions.shape[1])
    costs = problem.cost(take(instances, rows), flat).double().view_as(all_of.costs)
    assert torch.equal(costs, all_of.costs)  # of the instances themselves, to which the solutions belong
    assert (all_of.best()[1] <= one.best()[1]).all() and (all_of.best()[1] < one.best()[1]).any()


def test_the_square_has_eight_symmetries():
    points = torch.tensor([[0.1, 0.2], [0.9, 0.4], [0.3, 0.8]])
    moved = symmetric(points.expand(8, -1, -1), torch.arange(8))
    assert torch.equal(moved[0], points) and len({tuple(m.flatten().tolist()) for m in moved}) == 8
    for each in moved:
        assert torch.allclose(torch.cdist(each, each), torch.cdist(points, points), atol=1e-6)
        assert ((each >= 0) & (each <= 1)).all()


def test_further_equivalents_of_a_tour_begin_elsewhere():
    problem = TSP(9)
    instances = problem.generate(2, torch.Generator().manual_seed(0))
    each, _ = problem.equivalents(instances, 72)
    starts = {tuple(coords[0].tolist()) for coords in each.coords[:72:8]}
    assert starts == {tuple(node) for node in instances.coords[0].tolist()}
    assert torch.equal(each.coords[8 * 72 // 8 :][0], instances.coords[1])  # the second instance begins with itself


@pytest.mark.parametrize("name", CASES)
def test_more_than_there_are_is_refused(name):
    problem, policy, instances, most = case(name)
    with pytest.raises(ValueError, match=f"equivalents must be at most {most} for these {problem.name} instances"):
        search(problem, policy, instances, methods.Equivalents(methods.Greedy(), most + 1), keys=KEYS)


def test_results_depend_neither_on_neighbours_nor_on_chunks():
    problem, policy, instances, _ = case("tsp")
    config = methods.Equivalents(methods.WithoutReplacement(2, 2), 10)
    together = search(problem, policy, instances, config, keys=KEYS)
    with SearchPool(problem, policy, search_batch_rows=40) as pool:
        assert [chunk.stop - chunk.start for chunk in pool.chunks(instances, config)] == [2] * 6
    alone = search(problem, policy, take(instances, slice(5, 6)), config, keys=KEYS[5:6])
    assert torch.equal(alone.actions[0], together.actions[5])
