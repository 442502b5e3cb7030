"""The network for the CVRP and its auxiliary loss, against plain loops."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from gumbeldore.testing import policy_contract
from models.bq_cvrp import BQ
from problems.cvrp import CVRP
from tests.helpers.networks import awake, legal_logits, slow_layer
from tests.helpers.solutions import random_solutions

PROBLEM = CVRP(10, [15, 30])


def bq(seed=0, **options):
    """A small network whose layers matter (ReZero starts them at 0)."""
    torch.manual_seed(seed)
    plain = {"width": 16, "layers": 2, "heads": 2, "feedforward": 32, "canonical_coordinates": False, "route_loss": 0.0}
    return awake(BQ(**{**plain, **options})).eval()


OPTIONS = [{}, {"canonical_coordinates": True}, {"route_loss": 0.5}, {"canonical_coordinates": True, "route_loss": 2.0}]
SEEN = [{}, {"canonical_coordinates": True}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("num_customers", "nearest"), [(2, None), (3, None), (9, None), (9, 3)])
def test_contract(num_customers, nearest, options):
    policy_contract(bq(**options), CVRP(num_customers, [9, 20], nearest=nearest))
    policy_contract(bq(**options), CVRP(num_customers, [100, 100], nearest=nearest), seed=1)


def test_own_frame_of_nodes_in_one_place_is_finite():
    policy = bq(canonical_coordinates=True)
    instance, actions = random_solutions(PROBLEM, 4)
    together = instance._replace(coords=torch.full_like(instance.coords, 0.5))
    for step in (0, 5):
        assert legal_logits(PROBLEM, policy, together, PROBLEM.replay(instance, actions[:, :step])).isfinite().all()


# ---- against loops


def plain_frame(points):
    """The first point at 0, the last on the positive x axis, most of y above it, the farthest at distance 1."""
    points = [complex(x, y) - complex(*points[0]) for x, y in points]
    turn = points[-1].conjugate() / abs(points[-1]) if points[-1] else 1.0
    points = [point * turn / max(map(abs, points)) for point in points]
    if sum(point.imag for point in points) < 0:
        points = [point.conjugate() for point in points]
    return [(point.real, point.imag) for point in points]


def slow_tokens(policy, instance, state, row, layers=None):
    """The tokens of one row after so many layers (None: all), in plain loops over tokens, heads and keys."""
    nodes = [state.origin[row].item(), *state.view[row].tolist(), 0]
    capacity, left = instance.capacity[row].item(), state.left[row].item()
    demands, points = instance.demands[row].tolist(), [instance.coords[row, node].tolist() for node in nodes]
    ahead = (sum(demands[node] for node in state.remaining[row].tolist()) - left) / capacity
    spare = math.ceil(ahead) - ahead  # in the last vehicle, if the others were filled
    from_origin, from_depot = plain_frame(points), plain_frame(points[::-1])[::-1]
    apart = math.dist(from_origin[0], from_origin[-1])
    seen_of = []
    for place, node in enumerate(nodes):
        numbers = [demands[node] / capacity, left / capacity]
        if policy.canonical_coordinates:
            seen = []
            for frame in (from_origin, from_depot):
                seen += [*frame[place], math.dist(frame[place], frame[0]), math.dist(frame[place], frame[-1])]
            away = seen[-1]
            direction = [x / away for x in from_depot[place]] if away > 0 else [0.0, 0.0]
            numbers = [*seen, *direction, apart, *numbers, ahead, spare]
        else:
            numbers = [*points[place], *numbers]
        seen_of.append(numbers)
    tokens = [policy.embed(torch.tensor(numbers)) for numbers in seen_of]
    tokens[0], tokens[-1] = tokens[0] + policy.origin, tokens[-1] + policy.depot
    tokens = dict(enumerate(tokens))
    for layer in itertools.islice(policy.layers, layers):
        tokens = slow_layer(layer, tokens)
    return list(tokens.values())


@pytest.mark.parametrize("options", SEEN)
@pytest.mark.parametrize("nearest", [None, 3])
@pytest.mark.parametrize("step", [0, 4, 9])
def test_forward_equals_plain_loops(step, nearest, options):
    """Customer c has the logits c - 1 (directly) and N + c - 1 (via the depot); of those not looked at -inf."""
    problem, policy = CVRP(10, [15, 30], nearest=nearest), bq(**options)
    instance, actions = random_solutions(problem, 4)
    state = problem.replay(instance, actions[:, :step])
    logits = policy(instance, state)
    for row in range(4):
        expected = torch.full((20,), -math.inf)
        tokens = slow_tokens(policy, instance, state, row)[1:-1]
        for customer, token in zip(state.view[row].tolist(), tokens, strict=True):
            expected[customer - 1], expected[10 + customer - 1] = policy.head(token)
        assert torch.allclose(logits[row], expected, atol=1e-5)
        assert logits[row].isfinite().sum() == 2 * min(nearest or 10, 10 - step)


@pytest.mark.parametrize(("step", "nearest"), [(0, None), (3, None), (9, None), (0, 4), (3, 4)])
def test_route_loss_points_at_neighbours_and_at_all_others_on_the_route(step, nearest):
    """Each customer at the node before and the one after it, the origin at the one after it; never at itself.

    And each of them at all others on its route alike, or at the depot if it is alone. All of it after half of the
    layers, and after all. What is out of view neither points nor is pointed at.
    """
    problem = CVRP(10, [15, 30], nearest=nearest)
    policy = bq(route_loss=0.25)
    assert len(policy.layers) == 2
    instance, actions = random_solutions(PROBLEM, 6)
    state, rest = problem.replay(instance, actions[:, :step]), actions[:, step:]
    _, loss = policy.with_auxiliary_loss(instance, state, rest)
    before, after, together = [], [], []
    for row, halfway in itertools.product(range(6), (True, False)):
        tokens = slow_tokens(policy, instance, state, row, layers=1 if halfway else None)
        pointers_of = policy.route_loss.halfway if halfway else policy.route_loss.final
        of_route, of_neighbours = pointers_of.route, pointers_of.neighbours
        names = ["origin", *state.view[row].tolist(), "depot"]

        def surprise(name, other, pointers=of_neighbours, tokens=tokens, names=names):
            query = pointers.query(tokens[names.index(name)])
            others = [each for each in names if each != name]
            scores = torch.stack([query @ pointers.key(tokens[names.index(each)]) for each in others]) / 4.0
            return -scores.log_softmax(0)[others.index(other)]

        way = ["origin"]  # with the depot wherever the expert returns to it
        for action in rest[row].tolist():
            way += ["depot", action - 10 + 1] if action >= 10 else [action + 1]
        way.append("depot")
        for previous, here, following in zip(way, way[1:], way[2:], strict=False):
            if here != "depot" and {here, previous} <= {*names}:
                before.append(surprise(here, previous))
            if here != "depot" and {here, following} <= {*names}:
                after.append(surprise(here, following))
        if way[1] in names:
            after.append(surprise("origin", way[1]))
        for is_depot, route in itertools.groupby(way, lambda name: name == "depot"):
            route = [] if is_depot else [name for name in route if name in names]
            for name in route:
                others = [other for other in route if other != name] or ["depot"]
                found = [surprise(name, other, of_route) for other in others]
                together.append(torch.stack(found).mean())
    mean = (torch.stack(before).mean() + torch.stack(after).mean()) / 2 + torch.stack(together).mean()
    assert loss.item() == pytest.approx(0.25 * 2 * mean.item(), rel=1e-5)
    assert bq().with_auxiliary_loss(instance, state, rest)[1] == 0


# ---- options


@pytest.mark.parametrize(
    ("limit", "budget", "parts"),
    [("CPU_MAX_SCORES", 1, 50), ("CPU_MAX_SCORES", 1000, 13), ("CPU_MAX_ACTIVATIONS", 1000, 13)],
)
def test_micro_batches_give_the_same_logits(limit, budget, parts, monkeypatch):
    """Halved until they fit: 2 heads of 9^2 scores, or 9 tokens of 16 numbers, are 4 rows of the budget of 1,000."""
    policy = bq(canonical_coordinates=True)
    instance, actions = random_solutions(PROBLEM, 50)
    state = PROBLEM.replay(instance, actions[:, :3])
    whole = legal_logits(PROBLEM, policy, instance, state)
    calls = []
    inner = policy.tokens
    monkeypatch.setattr(policy, "tokens", lambda *args: calls.append(len(args[1].origin)) or inner(*args))
    monkeypatch.setattr(f"models.micro_batches.{limit}", budget)
    assert torch.allclose(legal_logits(PROBLEM, policy, instance, state), whole, atol=1e-5)
    assert sum(calls) == 50 and len(calls) == parts


def test_a_loss_of_negative_weight_is_refused():
    with pytest.raises(ValueError, match="route_loss must be at least 0, got -1.0"):
        bq(route_loss=-1.0)
