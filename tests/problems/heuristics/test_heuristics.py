"""OR-Tools' first solutions, and what they need."""

from __future__ import annotations

import sys

import pytest
import torch

from problems.cvrp import CVRP
from problems.cvrp import instances as cvrp_types
from problems.formats import cvrplib, tsplib
from problems.heuristics import Heuristic
from problems.routing.distances import SCALED_TO
from tests.helpers.unsolved import cvrp, random_points, tsp


@pytest.fixture
def ortools():
    pytest.importorskip("ortools")


def random_cvrp(n: int, customers: int, metric: str = "EUCLIDEAN", scale: float = 1.0):
    drawn = CVRP(customers, [20, 30]).generate(n, torch.Generator().manual_seed(6))
    return cvrp(scale * drawn.coords.double(), drawn.demands, drawn.capacity, [metric] * n)


@pytest.mark.parametrize(
    ("problem", "metric"), [("tsp", x) for x in tsplib.METRICS] + [("cvrp", x) for x in cvrplib.METRICS]
)
def test_solutions_are_legal_in_all_metrics(ortools, problem, metric):
    scale = {"EUCLIDEAN": 1.0, "GEO": 80.0}.get(metric, 100.0)
    instance_set = tsp(random_points(3, 16, scale=scale), [metric] * 3)
    if problem == "cvrp":
        instance_set = random_cvrp(3, 15, metric, scale)
    steps = []
    found = Heuristic().solve(problem, instance_set, steps.append)
    assert steps == [1, 1, 1] and len(found) >= 2
    for actions, seconds in found.values():
        assert actions.shape == (3, 15) and actions.dtype == torch.int64 and seconds > 0
        assert instance_set.true_cost(torch.arange(3), actions).isfinite().all()  # refuses what is no solution


def test_customers_in_a_row_are_served_as_savings_say(ortools):
    """By hand: two customers east and two west of the depot. Those of one side save 2 and 4, all others nothing."""
    coords = torch.tensor([[[0.0, 0], [1, 0], [2, 0], [-1, 0], [-2, 0]]], dtype=torch.float64)
    demands = torch.tensor([[0, 1, 1, 1, 1]])
    instance_set = cvrp(coords, demands, torch.tensor([2]), ["EUCLIDEAN"])
    actions = Heuristic().solve("cvrp", instance_set)["savings"].actions
    assert sorted(map(sorted, cvrp_types.as_routes(actions[0]))) == [[1, 2], [3, 4]]
    assert instance_set.true_cost(torch.tensor([0]), actions).item() == 8
    alone = cvrp(coords, demands, torch.tensor([1]), ["EUCLIDEAN"])
    actions = Heuristic().solve("cvrp", alone)["savings"].actions
    assert alone.true_cost(torch.tensor([0]), actions).item() == 12  # nobody shares a vehicle


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_nothing_improves_the_first_solution(ortools, problem, monkeypatch):
    """Each strategy finds the same where every operator of local search is off; with them it finds better."""
    from ortools.constraint_solver import pywrapcp
    from ortools.util.optional_boolean_pb2 import BOOL_FALSE

    instance_set = random_cvrp(5, 30) if problem == "cvrp" else tsp(random_points(5, 31), ["EUCLIDEAN"] * 5)
    solve, unlimited = pywrapcp.RoutingModel.SolveWithParameters, pywrapcp.DefaultRoutingSearchParameters()

    def costs(solve):
        monkeypatch.setattr(pywrapcp.RoutingModel, "SolveWithParameters", solve)
        found = Heuristic().solve(problem, instance_set)
        return torch.stack([instance_set.true_cost(torch.arange(5), actions) for actions, _ in found.values()])

    def with_local_search(model, parameters):
        parameters.solution_limit = unlimited.solution_limit
        return solve(model, parameters)

    def without_operators(model, parameters):
        for field in parameters.local_search_operators.DESCRIPTOR.fields:
            setattr(parameters.local_search_operators, field.name, BOOL_FALSE)
        return with_local_search(model, parameters)

    first, improved = costs(solve), costs(with_local_search)
    assert torch.equal(costs(without_operators), first)
    assert (improved <= first).all() and (improved < first).double().mean() > 0.5


def test_distances_are_scaled_finely(ortools):
    """Points so near to each other that distances rounded more coarsely would not tell them apart."""
    steps = torch.tensor([0.0, 9, 2, 7, 4], dtype=torch.float64)[:, None] * torch.tensor([1e-5, 0.0])
    coords = torch.cat([steps, torch.tensor([[1.0, 0.0]], dtype=torch.float64)])[None]
    assert 1e-5 * SCALED_TO >= 100
    instance_set = tsp(coords, ["EUCLIDEAN"])
    actions = Heuristic().solve("tsp", instance_set)["savings"].actions
    assert instance_set.true_cost(torch.tensor([0]), actions).item() == pytest.approx(2.0, abs=1e-12)


def test_smallest_and_degenerate_routes(ortools):
    for metric in ("EUCLIDEAN", "EUC_2D"):
        instance_set = tsp(random_points(1, 3), [metric])
        for actions, _ in Heuristic().solve("tsp", instance_set).values():
            assert sorted(actions[0].tolist()) == [1, 2]
        for actions, _ in Heuristic().solve("tsp", tsp(torch.ones(1, 5, 2, dtype=torch.float64), [metric])).values():
            assert sorted(actions[0].tolist()) == [1, 2, 3, 4]
        instance_set = cvrp(
            torch.ones(1, 4, 2, dtype=torch.float64), torch.tensor([[0, 0, 3, 3]]), torch.tensor([3]), [metric]
        )
        for actions, _ in Heuristic().solve("cvrp", instance_set).values():
            assert instance_set.true_cost(torch.tensor([0]), actions).item() == 0  # refuses what is no solution


def test_every_vehicle_may_be_needed(ortools):
    instance_set = cvrp(random_points(1, 8), torch.tensor([[0, *[5] * 7]]), torch.tensor([9]), ["EUCLIDEAN"])
    for actions, _ in Heuristic().solve("cvrp", instance_set).values():
        assert len(cvrp_types.as_routes(actions[0])) == 7


def test_what_has_no_heuristic_is_refused(ortools):
    with pytest.raises(ValueError, match="there is no heuristic for problem chess; see docs"):
        Heuristic().check("chess")


def test_ortools_is_needed_for_routes_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.constraint_solver.pywrapcp", None)
    for problem in ("tsp", "cvrp"):
        message = rf"method=heuristic needs OR-Tools for problem {problem}: pip install .* -e '.\[solvers\]'$"
        with pytest.raises(ValueError, match=message):
            Heuristic().check(problem)
    Heuristic().check("jssp")
