"""Random reconstruction: pieces of the best solution decoded anew."""

from __future__ import annotations

import time

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.interfaces import Policy
from gumbeldore.runtime.errors import InstanceError
from gumbeldore.sampler import methods
from gumbeldore.sampler.methods import reconstruct
from gumbeldore.sampler.search import search
from problems.cvrp import CVRP
from problems.cvrp.instances import decode
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.trees import TablePolicy, TreeProblem

KEYS = torch.arange(8) * 7919
CASES = {"tsp": TSP(12), "cvrp": CVRP(12, [20, 30])}


class Nearest(Policy):
    """The nearer a node, the likelier; the CVRP's depot is on the way or not."""

    def __init__(self, sharpness: float = 8.0):
        super().__init__()
        self.sharpness, self.seconds = sharpness, 0

    def forward(self, context, state):
        self.seconds += 1
        here = context.coords.gather(1, state.origin[:, None, None].expand(-1, -1, 2))
        near = -self.sharpness * (context.coords - here).norm(dim=-1)  # [R, N]
        return torch.cat([near[:, 1:], near[:, 1:] - 1], dim=1) if hasattr(context, "demands") else near


def start_of(name):
    problem = CASES[name]
    instances = problem.generate(len(KEYS), torch.Generator().manual_seed(2))
    return problem, instances._replace(coords=instances.coords.double())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "start",
    [methods.Greedy(), methods.Sampling(4, 1), methods.Tasar(2, 1, 4), methods.Equivalents(methods.Greedy(), 8)],
)
def test_never_worse_and_better(name, start):
    problem, instances = start_of(name)
    before = search(problem, Nearest(), instances, start, keys=KEYS)
    found = search(problem, Nearest(), instances, methods.Reconstruct(start, 30), keys=KEYS)
    length = before.actions.shape[1]
    assert torch.equal(found.actions[:, :length], before.actions) and found.actions.shape[1] == length + 1
    actions, cost = found.best()
    assert torch.equal(problem.cost(instances, actions), cost)  # legal, too
    assert (cost <= before.best()[1]).all() and (cost < before.best()[1]).sum() >= 6
    assert torch.equal(found.valid[:, -1], cost < before.best()[1])
    assert found.stats.evaluations > before.stats.evaluations
    more = search(problem, Nearest(), instances, methods.Reconstruct(start, 60), keys=KEYS)
    assert (more.best()[1] <= cost).all()


@pytest.mark.parametrize("name", CASES)
def test_a_given_start_takes_the_place_of_the_rounds(name):
    problem, instances = start_of(name)
    config = methods.Reconstruct(methods.Sampling(4, 1), 5)
    whole = search(problem, Nearest(), instances, config, keys=KEYS)
    rounds = search(problem, Nearest(), instances, methods.Sampling(4, 1), keys=KEYS)
    found = search(problem, Nearest(), instances, config, keys=KEYS, start=rounds.best()[0])
    assert all(torch.equal(a, b) for a, b in zip(found.best(), whole.best(), strict=True))
    assert found.stats.evaluations == whole.stats.evaluations - rounds.stats.evaluations
    assert (
        torch.equal(found.actions[:, 0], rounds.best()[0]) and found.valid[:, 0].all() and found.actions.shape[1] == 2
    )
    again = search(problem, Nearest(), instances, config, keys=KEYS + 1, start=found.best()[0])
    assert (again.best()[1] <= found.best()[1]).all() and (again.best()[1] < found.best()[1]).any()
    assert (
        again.actions[:, 0] != search(problem, Nearest(), instances, methods.Greedy(), keys=KEYS).actions[:, 0]
    ).any()


def test_a_start_is_checked():
    problem, instances = start_of("tsp")
    start = torch.arange(1, 12).repeat(len(KEYS), 1)
    cases = (methods.Greedy(), start, "a start is for Reconstruct or LocalSearch, which improve it, not for Greedy")
    others = [(start[1:], "shape"), (start.int(), "int32"), (start[:, 1:], "shape"), (start * 0 + 1, "does not visit")]
    for config, wrong, rule in [cases, *((methods.Reconstruct(), wrong, rule) for wrong, rule in others)]:
        with pytest.raises(ValueError, match=rule):
            search(problem, Nearest(), instances, config, keys=KEYS, start=wrong)


@pytest.mark.parametrize("name", CASES)
def test_all_orders_of_two_decisions_lead_to_where_no_two_are_better_in_another_order(name):
    """A piece of two decisions has at most 8 solutions, all of which a wide beam finds."""
    problem, instances = start_of(name)
    config = methods.Reconstruct(methods.Sampling(1, 1), 300, longest_piece=2, shortest_piece=2, piece_width=8)
    actions, cost = search(problem, Nearest(), instances, config, keys=KEYS).best()
    if name == "tsp":
        whole = torch.cat([torch.zeros_like(actions[:, :1]), actions], dim=1)
        for shift in range(12):
            turned = whole.roll(shift, dims=1)
            turned[:, [1, 2]] = turned[:, [2, 1]]
            at = (turned == 0).int().argmax(dim=1)
            tour = torch.stack([row.roll(-int(i)) for row, i in zip(turned, at, strict=True)])[:, 1:]
            assert (problem.cost(instances, tour) >= cost - 1e-9).all()
    else:
        customers, via = decode(actions, 12)
        for i in range(11):  # the last two customers of a route in the other order
            last = torch.cat([via[:, 1:], torch.ones_like(via[:, :1])], dim=1)[:, i + 1] & ~via[:, i + 1]
            other = customers.clone()
            other[:, [i, i + 1]] = other[:, [i + 1, i]]
            rows = last.nonzero().flatten()
            swapped = problem.cost(take(instances, rows), (other - 1 + 12 * via)[rows])
            assert (swapped >= cost[rows] - 1e-9).all()
    assert (cost < search(problem, Nearest(), instances, methods.Sampling(1, 1), keys=KEYS).best()[1] - 0.1).any()


@pytest.mark.parametrize("name", CASES)
def test_short_instances_and_long_pieces(name):
    problem = {"tsp": TSP(3), "cvrp": CVRP(2, [9, 9])}[name]
    instances = problem.generate(4, torch.Generator().manual_seed(0))
    for longest in (4, 50, None):
        config = methods.Reconstruct(methods.Greedy(), 5, longest)
        found = search(problem, Nearest(), instances, config, keys=KEYS[:4])
        assert torch.equal(problem.cost(instances, found.best()[0]).double(), found.best()[1])


@pytest.mark.parametrize("name", CASES)
def test_an_instance_does_not_depend_on_its_neighbours(name):
    problem, instances = start_of(name)
    config = methods.Reconstruct(methods.Sampling(2, 1), 10)
    together = search(problem, Nearest(), instances, config, keys=KEYS)
    for row in (0, 5):
        alone = search(problem, Nearest(), take(instances, slice(row, row + 1)), config, keys=KEYS[row : row + 1])
        assert torch.equal(alone.actions[0], together.actions[row])


@pytest.mark.parametrize("name", CASES)
def test_many_pieces_are_decoded_in_several_batches(name, monkeypatch):
    problem, instances = start_of(name)
    config = methods.Reconstruct(methods.Greedy(), 10)
    together = search(problem, Nearest(), instances, config, keys=KEYS)
    rows = []

    class Counted(Nearest):
        def forward(self, context, state):
            rows.append(len(state.origin))
            return super().forward(context, state)

    monkeypatch.setattr(reconstruct, "SCORES", 3 * problem.num_actions(instances))
    found = search(problem, Counted(), instances, config, keys=KEYS)
    assert torch.equal(found.actions, together.actions) and max(rows[12:]) == 3  # 12 are of the greedy solutions
    assert found.stats.evaluations == together.stats.evaluations


@pytest.mark.parametrize("scores", [reconstruct.SCORES, 12 * 5])
def test_the_instance_whose_pieces_cannot_be_decoded_is_named(scores, monkeypatch):
    """By its place in the batch, not by that of a piece; whether all pieces are decoded together, or five at a time."""

    class Faulty(Nearest):
        def forward(self, context, state):
            poison = torch.where((context.coords == instances.coords[3]).flatten(1).all(dim=1), torch.nan, 1.0)
            return super().forward(context, state) * poison[:, None]

    problem, instances = start_of("tsp")
    monkeypatch.setattr(reconstruct, "SCORES", scores)
    start = torch.arange(1, 12).repeat(len(KEYS), 1)
    config = methods.Reconstruct(methods.Greedy(), 1, longest_piece=2, shortest_piece=2)
    for keys in (KEYS, torch.zeros_like(KEYS)):
        with pytest.raises(InstanceError, match="^instance 3 of the batch: the policy's logits are NaN") as caught:
            search(problem, Faulty(), instances, config, keys=keys, start=start)
        assert caught.value.key == keys[3]


def test_the_time_limit_is_for_everything(monkeypatch):
    problem, instances = start_of("tsp")
    instances = take(instances, slice(1, 2))

    def costs(limit):
        clock = Nearest()
        monkeypatch.setattr(time, "monotonic", lambda: clock.seconds)
        config = methods.Anytime(methods.Reconstruct(methods.Greedy(), 1), limit)
        found = search(problem, clock, instances, config, keys=KEYS[:1])
        assert limit <= clock.seconds <= limit + 1
        return found.best()[1].item()

    ten = search(problem, Nearest(), instances, methods.Greedy(), keys=KEYS[:1]).best()[1].item()
    assert ten == costs(10.0) >= costs(40.0) >= costs(400.0) < ten  # the greedy solution alone takes ten questions


def test_pieces_and_their_length_change_the_result():
    problem, instances = start_of("tsp")

    def found(longest, iterations=4):
        config = methods.Reconstruct(methods.Greedy(), iterations, longest)
        return search(problem, Nearest(), instances, config, keys=KEYS).costs

    assert not torch.equal(found(4), found(11)) and not torch.equal(found(11), found(11, 30))


def test_a_start_by_its_name_is_given_its_settings():
    settings = {"iterations": 7, "longest_piece": 5, "beam_width": 3, "num_rounds": 2, "step_size": 0.5}
    made = methods.made(methods.Reconstruct, {"start": "gumbeldore", "equivalents": 2, "time_limit": 2.0, **settings})
    start = methods.Equivalents(methods.Gumbeldore(3, 2, 0.5), 2)
    assert made == methods.Anytime(methods.Reconstruct(start, 7, 5), 2.0)
    for wrong in ("solver", "reconstruct", ["greedy"]):
        with pytest.raises(ValueError, match="start must be one of greedy, sampling"):
            methods.made(methods.Reconstruct, {"start": wrong})


def test_what_cannot_be_reconstructed_is_refused():
    for problem, policy in ((TreeProblem(), TablePolicy()), (JSSP([[3, 3]], [[3, 3]]), TablePolicy())):
        instances = problem.generate(2, torch.Generator().manual_seed(0))
        with pytest.raises(ValueError, match=f"no random reconstruction for {problem.name}"):
            search(problem, policy, instances, methods.Reconstruct(), keys=KEYS[:2])
    for changes, rule in (
        ({"iterations": 0}, "iterations must be an integer of at least 1"),
        ({"longest_piece": 0}, "longest_piece must be an integer of at least 1"),
        ({"piece_width": 0}, "piece_width must be an integer of at least 1"),
        (
            {"start": methods.Anytime(methods.Sampling(2), 5.0)},
            "start must be a method of rounds, without a time limit",
        ),
        ({"start": methods.Reconstruct()}, "start must be a method of rounds"),
    ):
        with pytest.raises(ValueError, match=rule):
            methods.Reconstruct(**changes)
