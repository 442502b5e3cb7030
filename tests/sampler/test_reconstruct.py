"""Random reconstruction: pieces of the best solution decoded anew."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

from gumbeldore.batches import take
from gumbeldore.interfaces import Policy
from gumbeldore.sampler import methods, reconstruct
from gumbeldore.sampler.config import GREEDY, Reconstruction, SearchConfig
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
@pytest.mark.parametrize("start", [methods.greedy(), methods.sampling(4), methods.tasar(2, 1, 4), methods.greedy(8)])
def test_never_worse_and_better(name, start):
    problem, instances = start_of(name)
    before = search(problem, Nearest(), instances, start, keys=KEYS)
    found = search(problem, Nearest(), instances, methods.reconstruct(start, 30), keys=KEYS)
    length = before.actions.shape[1]
    assert torch.equal(found.actions[:, :length], before.actions) and found.actions.shape[1] == length + 1
    actions, cost = found.best()
    assert torch.equal(problem.cost(instances, actions), cost)  # legal, too
    assert (cost <= before.best()[1]).all() and (cost < before.best()[1]).sum() >= 6
    assert torch.equal(found.valid[:, -1], cost < before.best()[1])
    assert found.stats.evaluations > before.stats.evaluations
    more = search(problem, Nearest(), instances, methods.reconstruct(start, 60), keys=KEYS)
    assert (more.best()[1] <= cost).all()


@pytest.mark.parametrize("name", CASES)
def test_a_given_start_takes_the_place_of_the_rounds(name):
    problem, instances = start_of(name)
    config = methods.reconstruct(methods.sampling(4), 5)
    whole = search(problem, Nearest(), instances, config, keys=KEYS)
    rounds = search(problem, Nearest(), instances, methods.sampling(4), keys=KEYS)
    found = search(problem, Nearest(), instances, config, keys=KEYS, start=rounds.best()[0])
    assert all(torch.equal(a, b) for a, b in zip(found.best(), whole.best(), strict=True))
    assert found.stats.evaluations == whole.stats.evaluations - rounds.stats.evaluations
    assert (
        torch.equal(found.actions[:, 0], rounds.best()[0]) and found.valid[:, 0].all() and found.actions.shape[1] == 2
    )
    again = search(problem, Nearest(), instances, config, keys=KEYS + 1, start=found.best()[0])
    assert (again.best()[1] <= found.best()[1]).all() and (again.best()[1] < found.best()[1]).any()
    assert (again.actions[:, 0] != search(problem, Nearest(), instances, GREEDY, keys=KEYS).actions[:, 0]).any()


def test_a_start_is_checked():
    problem, instances = start_of("tsp")
    start = torch.arange(1, 12).repeat(len(KEYS), 1)
    cases = (methods.greedy(), start, "a start is for a search with a reconstruction")
    others = [(start[1:], "shape"), (start.int(), "int32"), (start[:, 1:], "shape"), (start * 0 + 1, "does not visit")]
    for config, wrong, rule in [cases, *((methods.reconstruct(), wrong, rule) for wrong, rule in others)]:
        with pytest.raises(ValueError, match=rule):
            search(problem, Nearest(), instances, config, keys=KEYS, start=wrong)
    limited = replace(methods.reconstruct(), time_limit=1e-9)
    found = search(problem, Nearest(), instances, limited, keys=KEYS, start=start)
    assert torch.equal(found.best()[0], start) and found.stats.evaluations == 0


@pytest.mark.parametrize("name", CASES)
def test_all_orders_of_two_decisions_lead_to_where_no_two_are_better_in_another_order(name):
    """A piece of two decisions has at most 8 solutions, all of which a wide beam finds."""
    problem, instances = start_of(name)
    how = Reconstruction(300, shortest=2, longest=2, search=SearchConfig(8, stochastic=False))
    config = replace(methods.sampling(1), reconstruction=how)
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
    assert (cost < search(problem, Nearest(), instances, methods.sampling(1), keys=KEYS).best()[1] - 0.1).any()


@pytest.mark.parametrize("name", CASES)
def test_short_instances_and_long_pieces(name):
    problem = {"tsp": TSP(3), "cvrp": CVRP(2, [9, 9])}[name]
    instances = problem.generate(4, torch.Generator().manual_seed(0))
    for longest in (4, 50, None):
        config = replace(methods.greedy(), reconstruction=Reconstruction(5, shortest=4, longest=longest))
        found = search(problem, Nearest(), instances, config, keys=KEYS[:4])
        assert torch.equal(problem.cost(instances, found.best()[0]).double(), found.best()[1])


@pytest.mark.parametrize("name", CASES)
def test_an_instance_does_not_depend_on_its_neighbours(name):
    problem, instances = start_of(name)
    config = methods.reconstruct(methods.sampling(2), 10)
    together = search(problem, Nearest(), instances, config, keys=KEYS)
    for row in (0, 5):
        alone = search(problem, Nearest(), take(instances, slice(row, row + 1)), config, keys=KEYS[row : row + 1])
        assert torch.equal(alone.actions[0], together.actions[row])


@pytest.mark.parametrize("name", CASES)
def test_many_pieces_are_decoded_in_several_batches(name, monkeypatch):
    problem, instances = start_of(name)
    config = methods.reconstruct("greedy", 10)
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


def test_the_time_limit_is_for_everything(monkeypatch):
    problem, instances = start_of("tsp")
    instances = take(instances, slice(1, 2))

    def costs(limit):
        clock = Nearest()
        monkeypatch.setattr(time, "monotonic", lambda: clock.seconds)
        config = methods.reconstruct("greedy", iterations=1, time_limit=limit)
        found = search(problem, clock, instances, config, keys=KEYS[:1])
        assert limit <= clock.seconds <= limit + 1
        return found.best()[1].item()

    ten = search(problem, Nearest(), instances, methods.greedy(), keys=KEYS[:1]).best()[1].item()
    assert ten == costs(10.0) >= costs(40.0) >= costs(400.0) < ten  # the greedy solution alone takes ten questions


def test_pieces_and_their_length_change_the_result():
    problem, instances = start_of("tsp")

    def found(longest, iterations=4):
        config = methods.reconstruct("greedy", iterations, longest)
        return search(problem, Nearest(), instances, config, keys=KEYS).costs

    assert not torch.equal(found(4), found(11)) and not torch.equal(found(11), found(11, 30))


def test_a_method_by_its_name_is_given_its_settings():
    config = methods.reconstruct("gumbeldore", 7, 5, 2.0, beam_width=3, num_rounds=2, step_size=0.5, equivalents=2)
    plain = methods.gumbeldore(3, 2, 0.5, equivalents=2)
    assert config == replace(plain, time_limit=2.0, reconstruction=Reconstruction(7, longest=5))
    with pytest.raises(ValueError, match="start must be one of greedy, sampling"):
        methods.reconstruct("reconstruct")
    with pytest.raises(ValueError, match="start must be one of greedy, sampling"):
        methods.reconstruct(["greedy"])


def test_what_cannot_be_reconstructed_is_refused():
    for problem, policy in ((TreeProblem(), TablePolicy()), (JSSP([[3, 3]], [[3, 3]]), TablePolicy())):
        instances = problem.generate(2, torch.Generator().manual_seed(0))
        with pytest.raises(ValueError, match=f"no random reconstruction for {problem.name}"):
            search(problem, policy, instances, methods.reconstruct(), keys=KEYS[:2])
    for changes, rule in (
        ({"iterations": 0}, "iterations must be an integer of at least 1"),
        ({"longest": 0}, "longest must be an integer of at least 1"),
        ({"search": methods.sampling(2)}, "a piece is decoded by one beam"),
        ({"search": SearchConfig(1, stochastic=False, time_limit=1.0)}, "without a time_limit"),
        ({"search": methods.tasar(2)}, "without replan_steps"),
    ):
        with pytest.raises(ValueError, match=rule):
            Reconstruction(**{"iterations": 3, **changes})


def test_a_start_has_neither_a_limit_nor_a_reconstruction():
    for start in (methods.wor(2, time_limit=5.0), methods.reconstruct()):
        with pytest.raises(ValueError, match="start must have neither a time_limit"):
            methods.reconstruct(start)
