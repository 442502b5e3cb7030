"""The TSP and its network."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.testing import policy_contract, problem_contract
from models.bq_tsp import BQ
from problems.routing.plane import move_square
from problems.tsp import TSP, Instance
from tests.helpers.solutions import random_experts


def bq(seed=0, **options):
    """A small network whose layers matter (ReZero starts them at 0)."""
    torch.manual_seed(seed)
    policy = BQ(16, 2, 2, 32, **{"canonical_coordinates": False, "successor_loss": 0, **options})
    for layer in policy.layers:
        layer.scale.data.fill_(0.7)
    return policy.eval()


def random_tours(n, num_nodes, seed=0):
    return random_experts(n, num_nodes, seed)[:2]


def plain_length(coords, tour):
    points = [coords[i] for i in tour]
    return sum(math.dist(a, b) for a, b in zip(points, points[1:] + points[:1], strict=True))


@pytest.mark.parametrize("num_nodes", [3, 4, 9])
def test_contracts(num_nodes):
    problem_contract(TSP(num_nodes))
    policy_contract(bq(), TSP(num_nodes))
    policy_contract(bq(canonical_coordinates=True, successor_loss=1.0), TSP(num_nodes))


def test_cost_is_the_tour_length():
    instance, actions = random_tours(20, 11)
    costs = TSP(11).cost(instance, actions)
    for coords, row, cost in zip(instance.coords.double().tolist(), actions.tolist(), costs.tolist(), strict=True):
        assert cost == pytest.approx(plain_length(coords, [0, *row]), rel=1e-6)


@pytest.mark.parametrize("wrong", [[[1, 2, 2]], [[0, 1, 2]], [[1, 2, 4]], [[1, 2]], [[1, 2, 3, 3]]])
def test_illegal_tours_are_refused(wrong):
    instance, _ = random_tours(1, 4)
    with pytest.raises(ValueError, match="actions|visit each"):
        TSP(4).cost(instance, torch.tensor(wrong))


def test_exhaustive_sampling_finds_the_optimum_of_seven_nodes():
    instance, _ = random_tours(4, 7, seed=1)
    found = search(TSP(7), bq(), instance, methods.WithoutReplacement(48, 16), torch.Generator().manual_seed(0))
    assert found.valid.sum(dim=1).tolist() == [720] * 4  # 6! tours, each once
    assert all(len({tuple(a) for a in row.tolist()}) == 720 for row in found.actions[:, :720])
    for row in range(4):
        coords = instance.coords[row].double().tolist()
        optimum = min(plain_length(coords, (0, *rest)) for rest in itertools.permutations(range(1, 7)))
        assert found.best()[1][row].item() == pytest.approx(optimum, rel=1e-6)
    assert found.log_probs.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 4, abs=1e-5)


def test_augmented_tours_keep_their_shape():
    """Lengths change by one factor per instance (at most 1), and so do all distances along the tour."""
    problem = TSP(12)
    instance, actions = random_tours(200, 12)
    other, moved = problem.augment(instance, actions, 0, torch.Generator().manual_seed(3))
    assert other.coords.min() >= -1e-6 and other.coords.max() <= 1 + 1e-6
    factor = problem.cost(other, moved) / problem.cost(instance, actions)
    assert (factor <= 1 + 1e-5).all() and (factor > 0.7).all() and factor.std() > 0.01
    before, after = sorted_edges(instance, actions), sorted_edges(other, moved)
    assert torch.allclose(after, before * factor[:, None], atol=1e-5)


def sorted_edges(instance, actions):
    tours = torch.cat([torch.zeros_like(actions[:, :1]), actions], dim=1)
    points = instance.coords.gather(1, tours[..., None].expand(-1, -1, 2))
    return (points - points.roll(-1, dims=1)).norm(dim=-1).sort(dim=1).values


def test_augmentation_draws_every_start_and_both_directions():
    """Node 0 of the new instance is any old node, and its successor in the tour either neighbour."""
    problem = TSP(5)
    instance, actions = random_tours(1, 5)
    instance, actions = Instance(instance.coords.expand(4000, -1, -1)), actions.expand(4000, -1)
    other, moved = problem.augment(instance, actions, 0, torch.Generator().manual_seed(0))
    tour = [0, *actions[0].tolist()]
    old = torch.cdist(instance.coords[:1], instance.coords[:1])[0]
    seen = set()
    for coords, row in zip(other.coords, moved, strict=True):
        new = torch.cdist(coords[None], coords[None])[0]
        new = new * (old.sum() / new.sum())
        ordered = new[[0, *row.tolist()]][:, [0, *row.tolist()]]
        for start in range(5):
            for step in (1, -1):
                path = [tour[(start + step * i) % 5] for i in range(5)]
                if torch.allclose(ordered, old[path][:, path], atol=1e-4):
                    seen.add((start, step))
    assert len(seen) == 10
    assert not torch.equal(other.coords[0], other.coords[1])  # and the squares are moved


def test_own_frame_makes_moved_instances_the_same():
    """Swapped, mirrored, rotated and shrunk squares get the same logits, but only with the option."""
    problem = TSP(10)
    instance, actions = random_tours(64, 10)
    state = problem.replay(instance, actions[:, :3])
    legal = problem.mask(instance, state)
    moved = Instance(move_square(instance.coords, torch.rand(64, 4, generator=torch.Generator().manual_seed(1))))
    smaller = Instance(moved.coords * 0.3 + 0.2)
    same, other = bq(canonical_coordinates=True), bq()
    for view in (moved, smaller):
        assert torch.allclose(same(instance, state)[legal], same(view, state)[legal], atol=1e-3)
        assert not torch.allclose(other(instance, state)[legal], other(view, state)[legal], atol=1e-2)
    start = problem.reset(instance)  # origin and destination coincide: nothing to rotate by, and no NaN
    assert same(instance, start)[:, 1:].isfinite().all()


@pytest.mark.parametrize("nearest", [None, 3])
def test_successor_loss_points_along_the_experts_way(nearest):
    """Against plain loops over nodes: each but the destination points at the next one in view, never at itself."""
    policy, problem = bq(successor_loss=0.5), TSP(9, nearest=nearest)
    instance, actions = random_tours(5, 9)
    state = problem.replay(instance, actions[:, :3])
    _, loss = policy.with_auxiliary_loss(instance, state, actions[:, 3:])
    tokens = policy.tokens(instance, state)[-1]
    losses = []
    for row in range(5):
        nodes = ["origin", *state.view[row].tolist(), "destination"]
        way = ["origin", *actions[row, 3:].tolist(), "destination"]
        for node, following in zip(way, way[1:], strict=False):
            if node not in nodes or following not in nodes:
                continue
            others = [other for other in nodes if other not in ("origin", node)]
            left = policy.successor_loss.query(tokens[row, nodes.index(node)])
            scores = torch.stack([left @ policy.successor_loss.key(tokens[row, nodes.index(o)]) / 4.0 for o in others])
            losses.append(-scores.log_softmax(0)[others.index(following)])
    assert loss.item() == pytest.approx(0.5 * torch.stack(losses).mean().item(), rel=1e-5)
    assert bq().with_auxiliary_loss(instance, state, actions[:, 3:])[1] == 0


@pytest.mark.parametrize("num_nodes", [2, 0, -1])
def test_too_small_an_instance_is_refused(num_nodes):
    with pytest.raises(ValueError, match="num_nodes must be at least 3"):
        TSP(num_nodes)


def test_a_loss_of_negative_weight_is_refused():
    with pytest.raises(ValueError, match="successor_loss must be at least 0, got -1.0"):
        bq(successor_loss=-1.0)
