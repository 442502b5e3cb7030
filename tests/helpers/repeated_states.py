"""Searches that write down what they ask the network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gumbeldore import Policy, Problem, search
from gumbeldore.sampler import beam
from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.job_shop import JobShop
from models.lehd_cvrp import LEHD as LEHDforCVRP
from models.lehd_tsp import LEHD
from models.published import CVRPBQ, JSSPTransformer
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.networks import awake

KEYS = torch.arange(3) + 7
CASES = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, canonical_coordinates=False, route_loss=0)),
    "jssp": (JSSP([[3, 3]], [[3, 3]]), lambda: JobShop(16, 1, 2, 32, lookahead=False, order_loss=0)),
    "jssp, lookahead": (JSSP([[3, 3]], [[3, 3]]), lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=0)),
    "tsp, lehd": (TSP(7), lambda: LEHD(16, 1, 2, 32, successor_loss=0)),
    "cvrp, lehd": (CVRP(6, [12, 14]), lambda: LEHDforCVRP(16, 1, 2, 32, route_loss=0)),
    "cvrp, published": (CVRP(6, [12, 14]), lambda: CVRPBQ(16, 1, 2, 32)),
    "jssp, published": (JSSP([[3, 3]], [[3, 3]]), lambda: JSSPTransformer(16, 3, 2, 32)),
}


class Recorder(Policy):
    """Remembers every (instance, canonical state) it is asked about."""

    def __init__(self, policy: Policy):
        super().__init__()
        self.policy, self.asked = policy.double(), []

    def encode(self, instance):
        return self.policy.encode(instance)

    def canonical_state(self, instance, state):
        return self.policy.canonical_state(instance, state)

    def forward(self, context, state):
        canonical = self.canonical_state(context, state)
        for row in range(len(canonical[0])):
            self.asked.append(tuple(tuple(field[row].flatten().tolist()) for field in (*context, *canonical)))
        return self.policy(context, state)


def run(problem: Problem, network: Callable[[], Policy], config) -> tuple[Recorder, object]:
    torch.manual_seed(1)
    policy = Recorder(awake(network()))
    instances = problem.generate(len(KEYS), torch.Generator().manual_seed(2))
    as_double = (f.double() if f.is_floating_point() else f for f in instances)
    return policy, search(problem, policy, type(instances)(*as_double), config, keys=KEYS)


def check_sharing(problem: Problem, network: Callable[[], Policy], config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search asks about each state once, and finds the same without the table."""
    policy, found = run(problem, network, config)
    assert len(policy.asked) == len(set(policy.asked)) == found.stats.evaluations
    assert found.stats.repeated > 0

    count = torch.arange(1000 * 256).view(-1, 256)  # every state another number: nothing is shared
    numbers = iter(count)
    monkeypatch.setattr(beam, "state_hash", lambda state: next(numbers)[: len(state[0])])
    lonely, alone = run(problem, network, config)
    assert set(lonely.asked) == set(policy.asked)
    assert alone.stats.evaluations == found.stats.evaluations + found.stats.repeated
    assert alone.stats.repeated == 0 and alone.stats.forced == found.stats.forced
    assert torch.equal(found.valid, alone.valid)
    assert torch.equal(found.actions[found.valid], alone.actions[found.valid])
    assert torch.equal(found.costs[found.valid], alone.costs[found.valid])
    torch.testing.assert_close(found.log_probs[found.valid], alone.log_probs[found.valid], rtol=1e-12, atol=1e-12)
