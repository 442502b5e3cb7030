"""Maps made of distances, and what an evaluation says of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from problems.cvrp.reports import CVRPReports
from problems.formats.maps import classical_scaling, map_error
from problems.tsp.instances import Original
from problems.tsp.reports import TSPReports
from tests.helpers.matrices import random_matrix
from tests.helpers.unsolved import random_points


def between(points: torch.Tensor) -> torch.Tensor:
    return (points[:, None] - points[None]).norm(dim=-1)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e9])
@pytest.mark.parametrize("nodes", [2, 3, 40])
def test_distances_in_a_plane_are_reproduced(nodes, scale):
    distances = between(random_points(1, nodes, seed=nodes, scale=scale)[0])
    points = classical_scaling(distances + scale * torch.eye(nodes))  # the diagonal is ignored
    assert torch.allclose(between(points), distances, rtol=0, atol=1e-7 * scale)
    assert map_error(points, distances) < 1e-7 and map_error(points * 17, distances) < 1e-7


def test_both_directions_are_averaged():
    there = torch.from_numpy(random_matrix(9))
    points = classical_scaling(there)
    assert torch.equal(points, classical_scaling(there.T.contiguous()))
    assert torch.allclose(points, classical_scaling((there + there.T) / 2))


def test_a_map_is_as_close_as_two_dimensions_allow():
    """Four nodes with equal distances lie in three dimensions of equal extent, of which the map has two."""
    distances = 1 - torch.eye(4, dtype=torch.float64)
    points = classical_scaling(distances)
    gram = torch.eye(4, dtype=torch.float64) / 2 - 1 / 8
    assert torch.linalg.eigvalsh(gram - points @ points.T).abs().sort().values.tolist() == pytest.approx([0, 0, 0, 0.5])


def test_degenerate_distances_have_a_map():
    assert classical_scaling(torch.zeros(3, 3, dtype=torch.float64)).tolist() == [[0, 0]] * 3
    assert map_error(torch.zeros(3, 2).double(), torch.zeros(3, 3).double()) == 0
    assert map_error(torch.zeros(3, 2).double(), torch.ones(3, 3).double()) == 1
    line = torch.tensor([0.0, 1.0, 5.0], dtype=torch.float64)
    points = classical_scaling((line[:, None] - line[None]).abs())
    assert points[:, 1].abs().max() < 1e-6 and points[:, 0].diff().abs().tolist() == pytest.approx([1, 4])
    star = torch.tensor([[0.0, 1, 1, 1], [1, 0, 9, 9], [1, 9, 0, 9], [1, 9, 9, 0]]).double()  # no triangle inequality
    assert classical_scaling(star).isfinite().all()


def test_the_error_is_that_of_the_best_scale():
    distances = torch.tensor([[0.0, 3.0], [5.0, 0.0]]).double()
    assert map_error(torch.tensor([[0.0, 0.0], [7.0, 0.0]]).double(), distances) == pytest.approx(2 / 8)


def test_what_an_evaluation_says_of_maps():
    plane = random_points(2, 5)
    exact, other = between(plane[0]), torch.tensor([[0.0, 3.0], [5.0, 0.0]]).double()
    assert TSPReports().remarks([Original(plane, ["EUCLIDEAN", "EUC_2D"])]) == []
    (line,) = TSPReports().remarks([Original(plane, [exact, "EUC_2D"])])
    beginning = "1 of 2 instances have distances of their own: costs are by these, but the policy sees a map"
    assert line == f"{beginning}; distances on it differ from theirs by 0% on average"
    pair = Original(torch.tensor([[[0.0, 0.0], [7.0, 0.0]]]).double(), [other])
    (line,) = TSPReports().remarks([Original(plane[:1], [exact]), pair])
    assert line.startswith("the instances have") and line.endswith("by 12% on average (by 25% at most)")
    assert CVRPReports().remarks([plane]) == TSPReports().remarks([np.zeros(3)]) == []  # not in their own units
