"""Heuristics and solvers on matrices of distances, with their directions; what is kept of answers and evaluations."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from gumbeldore.evaluation.kept import fingerprint
from gumbeldore.evaluation.parts import Parts, SolvedSet
from gumbeldore.evaluation.solved_sets import results_of
from problems.cvrp.instances import as_routes
from problems.cvrp.sets import CVRPSets
from problems.heuristics import Heuristic
from problems.solvers import Solver
from problems.solvers.pool import row_of
from problems.tsp.sets import TSPSets
from tests.helpers.matrices import random_matrix

pytest.importorskip("ortools")

DEMANDS = [0, 4, 6, 5, 5, 1, 7]


def tours(*matrices: np.ndarray):
    return TSPSets().from_arrays({"distances": np.stack(matrices)}, "mine")


def routes(*matrices: np.ndarray):
    n = len(matrices)
    arrays = {"distances": np.stack(matrices), "demands": np.array([DEMANDS] * n), "capacity": np.full(n, 12)}
    return CVRPSets().from_arrays(arrays, "mine")


def one_way(n: int) -> np.ndarray:
    """A ring of n nodes that costs 1 per step in one direction, and 50 in the other."""
    matrix = np.full((n, n), 50.0)
    order = np.random.RandomState(0).permutation(n)
    matrix[order, np.roll(order, -1)] = 1
    return matrix


@pytest.mark.parametrize("scale", [1.0, 1 / 7])  # unrounded distances, too
def test_tours_are_solved_to_the_optimum_in_their_direction(scale):
    pytest.importorskip("pyvrp")
    matrix = random_matrix(7) * scale
    result = Solver(time_limit=0.2).solve("tsp", tours(matrix, matrix.T))
    every = [[0, *rest] for rest in permutations(range(1, 7))]
    best = min(sum(matrix[a, b] for a, b in zip(x, np.roll(x, -1), strict=True)) for x in every)
    assert result.costs.tolist() == pytest.approx([best] * 2, abs=1e-12)
    assert result.actions[0].tolist() != result.actions[1].tolist()


def with_forbidden(length: float, *arcs: tuple[int, int]) -> np.ndarray:
    """Decimals, and arcs that no good tour uses but for one that must: all from node 3."""
    matrix = random_matrix(6) / 8 + 0.1
    for a, b in arcs:
        matrix[a, b] = length
    return matrix


ALL_FROM_3 = [(3, node) for node in range(6) if node != 3]


@pytest.mark.parametrize("length", [1e9, 1e12])
@pytest.mark.parametrize("arcs", [[(0, 5), (2, 1)], ALL_FROM_3], ids=["free", "forced"])
def test_forbidden_arcs_leave_solvers_their_digits(arcs, length):
    """PyVRP and OR-Tools take whole numbers: scaled by the longest length, all others would be 0."""
    pytest.importorskip("pyvrp")
    matrix = with_forbidden(length, *arcs)
    costs = [sum(matrix[a, b] for a, b in pairwise((0, *rest, 0))) for rest in permutations(range(1, 6))]
    result = Solver(time_limit=0.2).solve("tsp", tours(matrix))
    assert result.costs.item() == pytest.approx(min(costs), rel=1e-12) and "within" not in result.kinds[0]
    for found in Heuristic().solve("tsp", tours(matrix)).values():
        assert tours(matrix).true_cost(torch.tensor([0]), found.actions) < sorted(costs)[len(costs) // 3]


def test_lost_digits_are_said_with_the_reference():
    """Forbidden arcs of several lengths: which of them the optimum needs cannot be known."""
    pytest.importorskip("pyvrp")
    result = Solver(time_limit=0.2).solve("tsp", tours(with_forbidden(4e11, (0, 5)) + with_forbidden(8e11, (2, 1))))
    assert result.kinds[0].endswith(", distances only to within 4e+04")


def test_routes_are_solved_in_their_direction():
    pytest.importorskip("pyvrp")
    matrix = random_matrix(7)
    instance_set = routes(matrix, matrix.T)
    result = Solver(time_limit=0.3).solve("cvrp", instance_set)
    assert result.costs[0] == result.costs[1]
    for actions, each in zip(result.actions, (matrix, matrix.T), strict=True):
        walks = [[0, *route, 0] for route in as_routes(actions)]
        assert sum(each[a, b] for walk in walks for a, b in zip(walk[:-1], walk[1:], strict=True)) == result.costs[0]


def test_a_worker_gets_one_matrix_alone():
    row = row_of(tours(*[random_matrix(8)] * 5).originals, 3)
    assert row.metrics.untyped_storage().nbytes() == 8 * 8 * 8


@pytest.mark.parametrize("matrix", [one_way(9), random_matrix(9)])
def test_heuristics_go_in_the_right_direction(matrix):
    for problem, instance_set in (("tsp", tours(matrix)), ("cvrp", routes(matrix[:7, :7]))):
        mirrored = tours(matrix.T) if problem == "tsp" else routes(matrix[:7, :7].T)
        for found in Heuristic().solve(problem, instance_set).values():
            there = instance_set.true_cost(torch.tensor([0]), found.actions)
            back = mirrored.true_cost(torch.tensor([0]), found.actions)
            assert there != back
    tour = Heuristic().solve("tsp", tours(one_way(9)))["insertion"]
    assert tours(one_way(9)).true_cost(torch.tensor([0]), tour.actions) < 9 * 50 / 2


def test_christofides_is_left_out_where_directions_differ():
    symmetric, other = random_matrix(8, symmetric=True), random_matrix(8)
    assert list(Heuristic().solve("tsp", tours(symmetric))) == ["savings", "insertion", "Christofides"]
    for instance_set in (tours(other), tours(symmetric, other)):
        assert list(Heuristic().solve("tsp", instance_set)) == ["savings", "insertion"]


def result(cost: float) -> SolvedSet:
    return SolvedSet.without_policy(torch.zeros(1, 3, dtype=torch.int64), torch.tensor([cost]).double(), 1.0)


def test_only_a_heuristic_for_all_instances_is_shown():
    """The better one is for some of them alone: in parts of an instance set, or of several."""
    first, second = Parts(), Parts()
    first.add(slice(0, 1), {"Christofides": result(1.0), "savings": result(2.0)})
    second.add(slice(0, 1), {"savings": result(3.0)})
    instance_set = tours(random_matrix(4))
    assert list(results_of("heuristic", [first, second], [instance_set] * 2)) == ["heuristic"]
    first.add(slice(1, 2), {"savings": result(4.0)})
    assert list(first.joined()) == ["savings"] and first.joined()["savings"].costs.tolist() == [2, 4]


def test_an_evaluation_goes_on_only_with_the_same_matrix():
    matrix = random_matrix(60)
    other = matrix.copy()
    other[30, 31] += 1
    coords = np.zeros((1, 60, 2))
    instance_sets = [
        TSPSets().from_arrays({"distances": x[None], "coords": coords}, "x") for x in (matrix, matrix, other)
    ]
    prints = [fingerprint([instance_set]) for instance_set in instance_sets]
    assert prints[0] == prints[1] != prints[2]
