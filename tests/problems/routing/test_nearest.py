"""`problem.nearest`: which nodes are in view, and what a search and a training make of it."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.testing import problem_contract
from gumbeldore.training.imitation import OUT_OF_VIEW, Imitation
from problems.cvrp import CVRP
from problems.tsp import TSP
from tests.helpers.policies import FixedPolicy
from tests.helpers.solutions import random_solutions

PROBLEMS = {
    "tsp": lambda nearest: TSP(11, nearest=nearest),
    "cvrp": lambda nearest: CVRP(10, [15, 30], nearest=nearest),
}
both = pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)


def nodes_of(problem, instance, actions):
    """The node that each action goes to."""
    return actions if problem.name == "tsp" else actions % problem.horizon(instance) + 1


@both
@pytest.mark.parametrize("nearest", [1, 3])
def test_contract(make, nearest):
    problem_contract(make(nearest))


def test_an_evaluation_shows_the_nearest_of_many_nodes_of_a_tsp_unless_something_else_is_said():
    medium, large = (TSP(nodes).generate(1, torch.Generator().manual_seed(0)) for nodes in (499, 500))

    def shown(instance, nodes=20, **options):
        return TSP(nodes, **options).for_evaluation().reset(instance).view.shape[1]

    assert shown(medium) == 498 and shown(large) == 100
    assert shown(large, nearest="all") == 499 == shown(large, nodes=500) and shown(large, nearest=7) == 7
    assert TSP(20).reset(large).view.shape[1] == 499  # a training shows all
    assert TSP(20).for_evaluation().view_of(medium) == "" == TSP(20, nearest=7).for_evaluation().view_of(large)
    said = "of 500 nodes, the policy sees the 100 nearest to the current one (problem.nearest=all: all)"
    assert TSP(20).for_evaluation().view_of(large) == said


@both
def test_the_nearest_of_the_remaining_nodes_are_in_view_and_can_be_gone_to(make):
    problem, free = make(3), make(None)
    instance, actions = random_solutions(problem, 30)
    for q in range(problem.horizon(instance)):
        state = problem.replay(instance, actions[:, :q])
        legal, everything = (p.mask(instance, p.replay(instance, actions[:, :q])) for p in (problem, free))
        for row in range(30):
            coords, here = instance.coords[row].tolist(), state.origin[row].item()
            remaining = state.remaining[row].tolist()
            by_distance = sorted(remaining, key=lambda node: math.dist(coords[node], coords[here]))
            assert state.view[row].tolist() == sorted(by_distance[:3])
            in_view = [node in by_distance[:3] for node in nodes_of(problem, instance, torch.arange(len(legal[row])))]
            assert torch.equal(legal[row], everything[row] & torch.tensor(in_view))


@both
@pytest.mark.parametrize("nearest", [10, 250, "all"])
def test_a_view_of_all_nodes_is_no_restriction(make, nearest):
    free, wide = make(None), make(nearest)
    instance, actions = random_solutions(free, 5)
    for q in range(free.horizon(instance)):
        for mine, theirs in zip(*(p.replay(instance, actions[:, :q]) for p in (free, wide)), strict=True):
            assert torch.equal(mine, theirs)
    config = methods.WithoutReplacement(4, 2)
    a, b = (search(p, FixedPolicy(p), instance, config, torch.Generator().manual_seed(0)) for p in (free, wide))
    assert torch.equal(a.actions, b.actions) and torch.equal(a.costs, b.costs)


@both
def test_pieces_are_decoded_in_view(make):
    """Of a piece's nodes those nearest to its origin; the pieces that are decoded make legal solutions."""
    problem = make(2)
    instance, actions = random_solutions(problem, 6)
    uniform = torch.Generator().manual_seed(1)
    pieces = problem.pieces(instance, actions, 4, lambda n: torch.rand(6, n, generator=uniform, dtype=torch.float64))
    for row, origin, remaining, near in zip(
        pieces.row, pieces.state.origin, pieces.state.remaining, pieces.state.view, strict=True
    ):
        away = (instance.coords[row] - instance.coords[row, origin]).norm(dim=-1)
        assert sorted(away[near].tolist()) == sorted(away[remaining].tolist())[:2]
    config = methods.Reconstruct(methods.Greedy(), 5)
    found = search(problem, FixedPolicy(problem), instance, config, torch.Generator().manual_seed(0))
    greedy = search(problem, FixedPolicy(problem), instance, methods.Greedy())
    assert torch.allclose(problem.cost(instance, found.best()[0]).double(), found.best()[1])
    assert (found.best()[1] < greedy.best()[1]).any()


@both
def test_what_the_expert_does_out_of_view_is_not_imitated(make):
    problem, free = make(3), make(None)
    instance, actions = random_solutions(free, 200)
    state = problem.replay(instance, actions[:, :4])
    logits, target, _ = Imitation(problem, FixedPolicy(problem))(instance, state, actions[:, 4:])
    expected = nodes_of(problem, instance, actions[:, 4])
    seen = (state.view == expected[:, None]).any(dim=1)
    assert 0 < seen.sum() < 200
    assert torch.equal(target, actions[:, 4].where(seen, OUT_OF_VIEW))
    assert logits.gather(1, actions[:, 4:5])[~seen].isneginf().all()


@both
@pytest.mark.parametrize("nearest", [0, -1, "some"])
def test_views_of_nothing_are_refused(make, nearest):
    with pytest.raises(ValueError, match=f"^nearest must be at least 1, all or null, got {nearest}$"):
        make(nearest)
