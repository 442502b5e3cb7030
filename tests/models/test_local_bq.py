"""Networks with a local view: what they see, in plain loops, and what makes no difference to them."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.testing import policy_contract
from models import local_bq_cvrp, local_bq_tsp
from models.local_view import View, view_features
from problems.cvrp import CVRP
from problems.routing.plane import move_square
from problems.tsp import TSP
from tests.helpers.networks import awake, legal_logits
from tests.helpers.solutions import random_solutions

KINDS = ("tsp", "cvrp")
NEAREST = 4


def problem_of(name, size=14, nearest=NEAREST):
    return TSP(size, nearest=nearest) if name == "tsp" else CVRP(size, [15, 30], nearest=nearest)


def network(name, loss=0.0, seed=0):
    """A small network whose layers matter (ReZero starts them at 0)."""
    torch.manual_seed(seed)
    kind, of_loss = {"tsp": (local_bq_tsp, "successor_loss"), "cvrp": (local_bq_cvrp, "route_loss")}[name]
    return awake(kind.LocalBQ(width=16, layers=2, heads=2, feedforward=32, **{of_loss: loss})).eval()


@pytest.mark.parametrize("nearest", [None, NEAREST])
@pytest.mark.parametrize("name", KINDS)
def test_contract(name, nearest):
    policy_contract(network(name, loss=1.0), problem_of(name, 9, nearest))


@pytest.mark.parametrize("name", KINDS)
def test_a_decision_takes_the_same_however_large_the_instance_is(name):
    sizes = []
    for size in (14, 60):
        problem = problem_of(name, size)
        instance, _ = random_solutions(problem, 2)
        sizes.append(network(name).row_size(instance, problem.reset(instance)))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", KINDS)
def test_nodes_out_of_view_are_not_seen(name):
    problem, policy = problem_of(name), network(name)
    instance, actions = random_solutions(problem, 20)
    state = problem.replay(instance, actions[:, :3])
    seen = torch.zeros(instance.coords.shape[:2], dtype=torch.bool).scatter(1, state.view, True)
    seen.scatter_(1, state.origin[:, None], True)
    seen[:, 0] = True  # the destination, or the depot
    other = instance._replace(coords=instance.coords.where(seen[..., None], 0.123))
    squeezed = instance.coords * torch.tensor([1.0, 0.5])
    changed = instance._replace(coords=instance.coords.where(~seen[..., None], squeezed))
    a, b, c = (legal_logits(problem, policy, each, state) for each in (instance, other, changed))
    assert torch.equal(a, b) and not torch.allclose(a, c, atol=1e-3)


@pytest.mark.parametrize("name", KINDS)
def test_a_view_looks_alike_wherever_it_is(name):
    """Moved, turned, mirrored and shrunk."""
    problem, policy = problem_of(name), network(name)
    instance, actions = random_solutions(problem, 40)
    state = problem.replay(instance, actions[:, :3])
    draw = torch.rand(40, 4, generator=torch.Generator().manual_seed(1))
    other = instance._replace(coords=move_square(instance.coords, draw) * 0.3 + 0.2)
    a, b = (legal_logits(problem, policy, each, state) for each in (instance, other))
    assert torch.allclose(a, b, atol=1e-3)


def test_a_view_in_plain_numbers():
    """Complex numbers: the origin at 0, the end in the direction of 1, the farthest node in view at distance 1."""
    points = torch.rand(50, 7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points[:, -1] = points[:, -1] * 20 - 10  # the end may be far away
    placed = View.of(points).place(points)
    for row, found in zip(points.tolist(), placed.tolist(), strict=True):
        here, *others = (complex(*point) for point in row)
        turn = (others[-1] - here).conjugate() / abs(others[-1] - here)
        radius = max(abs(point - here) for point in others[:-1])
        expected = [(point - here) * turn / radius for point in [here, *others]]
        if sum(point.imag for point in expected[:-1]) < 0:
            expected = [point.conjugate() for point in expected]
        for point, (x, y) in zip(expected, found, strict=True):
            assert abs(point - complex(x, y)) < 1e-9


def test_a_view_of_nodes_in_one_place_is_finite():
    together = torch.full((3, 6, 2), 0.5)
    assert View.of(together).place(together).isfinite().all()
    apart = torch.cat([together, torch.ones(3, 1, 2)], dim=1)  # all but the end
    assert View.of(apart).place(apart)[:, -1].allclose(torch.tensor([1.0, 0.0]))


def test_far_points_keep_their_direction_and_tell_their_distance():
    placed = torch.tensor([[[0.3, 0.4], [30.0, 40.0], [0.0, 0.0]]])
    expected = [[0.3, 0.4, math.log(1.5)], [1.2, 1.6, math.log(51)], [0.0, 0.0, 0.0]]
    assert torch.allclose(view_features(placed), torch.tensor([expected]))
