"""Distances in arrays of the user, with and without a map, and what is refused; what solvers ask of distances."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from gumbeldore.instance_set import WrongProblemError
from problems.cvrp.instances import of_routes
from problems.cvrp.sets import CVRPSets
from problems.formats import npz
from problems.routing.distances import is_symmetric, is_whole, whole_distances
from problems.tsp.sets import TSPSets
from tests.helpers.matrices import ASYMMETRIC, DEMANDS, SYMMETRIC, cost_of, length, random_matrix


def test_arrays_of_distances_with_and_without_a_map(tmp_path):
    distances = np.stack([ASYMMETRIC, SYMMETRIC]) / 3
    coords = np.random.RandomState(0).rand(2, 6, 2)
    for arrays in ({"distances": distances}, {"distances": distances, "coords": coords}):
        np.savez(tmp_path / "mine.npz", **arrays, cost=[5.0, np.nan])
        (instance_set,) = TSPSets().load(str(tmp_path / "mine.npz"))
        for i in range(2):
            assert cost_of(instance_set, [5, 3, 1, 2, 4], i) == pytest.approx(length(distances[i], [0, 5, 3, 1, 2, 4]))
        assert instance_set.names == ["mine/0", "mine/1"] and instance_set.references[0] == 5
        assert torch.equal(instance_set.originals.coords, torch.from_numpy(coords)) == ("coords" in arrays)
        assert len(TSPSets().load(str(tmp_path / "mine.npz"), 1)[0].originals.metrics) == 1
        np.savez(tmp_path / "routes.npz", **arrays, demands=[DEMANDS] * 2, capacity=10)
        (instance_set,) = CVRPSets().load(str(tmp_path / "routes.npz"))
        actions = of_routes([[2, 1], [4, 3], [5]], 5)
        expected = [sum(length(each, [0, *route]) for route in ([2, 1], [4, 3], [5])) for each in distances]
        assert [cost_of(instance_set, actions, i) for i in range(2)] == pytest.approx(expected)


def test_whole_and_narrow_numbers_are_distances(tmp_path):
    for kind in (np.int16, np.uint8, np.float32):
        np.savez(tmp_path / "x.npz", distances=random_matrix(6, diagonal=0)[None].astype(kind))
        (instance_set,) = TSPSets().load(str(tmp_path / "x.npz"))
        assert cost_of(instance_set, [1, 2, 3, 4, 5]) == length(ASYMMETRIC, [0, 1, 2, 3, 4, 5])


GOOD = np.stack([ASYMMETRIC, SYMMETRIC])
WRONG = {
    "negative": (GOOD - 50 * np.eye(6)[[1, 0, 2, 3, 4, 5]], "instance 0 from node 0 to node 1 is -2"),
    "nan": (np.where(np.arange(72).reshape(2, 6, 6) == 38, np.nan, GOOD), "instance 1 from node 0 to node 2 is nan"),
    "infinite in few bits": (
        np.where(np.arange(72).reshape(2, 6, 6) == 6, np.inf, GOOD).astype(np.float16),
        "instance 0 from node 1 to node 0 is inf",
    ),
    "one matrix": (ASYMMETRIC, r"must be numbers \[n, N, N\] .*, got float64 \[6, 6\]"),
    "two nodes": (GOOD[:, :2, :2], r"with n >= 1 and N within 3\.\.5000, got float64 \[2, 2, 2\]"),
    "no instance": (GOOD[:0], r"got float64 \[0, 6, 6\]"),
    "truth values": (GOOD > 50, r"got bool \[2, 6, 6\]"),
    "too many nodes": (np.zeros((1, 5001, 5001), dtype=np.uint8), r"N within 3\.\.5000, got uint8 \[1, 5001, 5001\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_malformed_arrays_are_refused(tmp_path, case):
    distances, rule = WRONG[case]
    np.savez(tmp_path / "bad.npz", distances=distances)
    with pytest.raises(ValueError, match=rf"bad\.npz: distances .*{rule}"):
        TSPSets().load(str(tmp_path / "bad.npz"))
    with pytest.raises(ValueError, match=f"^what I made: distances .*{rule}"):
        TSPSets().from_arrays({"distances": distances}, "what I made")


def test_a_map_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"^x: .*same n and N, got \[2, 5, 2\] and \[2, 6, 6\]"):
        TSPSets().from_arrays({"distances": GOOD, "coords": np.ones((2, 5, 2))}, "x")


def test_arrays_that_are_too_large_are_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "large.npz", distances=GOOD)
    monkeypatch.setattr(npz, "MOST_NUMBERS", 71)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=r"large\.npz: distances \[2, 6, 6\] has more than 71 numbers"):
        TSPSets().load(str(tmp_path / "large.npz"))


def test_arrays_of_another_problem_are_recognised(tmp_path):
    np.savez(tmp_path / "x.npz", distances=GOOD)
    with pytest.raises(WrongProblemError, match="must hold capacity, demands and coords or distances"):
        CVRPSets().load(str(tmp_path / "x.npz"))
    np.savez(tmp_path / "x.npz", distances=GOOD, demands=[DEMANDS] * 2, capacity=10)
    with pytest.raises(WrongProblemError):
        TSPSets().load(str(tmp_path / "x.npz"))


def test_properties_of_metrics():
    matrix = {name: torch.from_numpy(x) for name, x in (("there", ASYMMETRIC), ("both", SYMMETRIC))}
    assert is_symmetric(matrix["both"]) and not is_symmetric(matrix["there"]) and is_symmetric("GEO")
    assert is_whole(matrix["there"]) and not is_whole(matrix["there"] / 2) and is_whole("ATT")
    assert not is_whole("EXACT_2D")
    whole, scale, error, _ = whole_distances(None, matrix["there"] / 7)
    expected = random_matrix(6, diagonal=0) / 7
    assert np.abs(whole / scale - expected).max() <= error * 1.000001 and whole.max() == 10_000_000
    assert whole[1, 0] != whole[0, 1]


@pytest.mark.parametrize("unit", [1.0, 0.3])
def test_whole_numbers_for_forbidden_arcs_keep_all_solutions_in_order(unit):
    """Tours, and routes with the depot anywhere among the nodes, of a matrix with many forbidden arcs."""
    matrix = torch.from_numpy(random_matrix(6, diagonal=0)) * unit
    forbidden = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) < 0.4
    matrix[forbidden.fill_diagonal_(False)] = 1e12
    whole, *_ = whole_distances(None, matrix)
    walks = [(0, *rest, 0) for rest in permutations(range(1, 6))]
    walks += [(*walk[:place], 0, *walk[place:]) for walk in walks for place in range(2, 6)]
    costs = [[sum(each[a, b].item() for a, b in pairwise(walk)) for walk in walks] for each in (matrix, whole)]
    order = sorted(range(len(walks)), key=lambda place: costs[0][place])
    assert len({round(cost / 1e12) for cost in costs[0]}) > 3 and whole.max() < 1e11
    assert all(costs[0][b] - costs[0][a] < 0.01 or costs[1][a] < costs[1][b] for a, b in pairwise(order))


def test_distances_too_large_for_whole_numbers_are_scaled():
    matrix = torch.from_numpy(random_matrix(6, diagonal=0))
    for large in (matrix * 1e10, matrix * 1e10 + 0.5):
        whole, scale, error, _ = whole_distances(None, large)
        assert whole.max() == 10_000_000
        assert np.abs(whole / scale - large.fill_diagonal_(0).numpy()).max() <= error * 1.000001
