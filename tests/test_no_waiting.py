"""How often the loops wait for what the device computes, shown without one; tests/test_gpu.py asks a GPU.

A training step never does: it runs on torch's meta device, whose tensors have no values to wait for. A step of a search
does once: the operations that hand values to Python are counted.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from gumbeldore import methods
from gumbeldore.dataset import PseudoExperts
from gumbeldore.imitation import imitate
from gumbeldore.optimizer import optimizer_of
from gumbeldore.search import search
from models.bq import BQ
from models.bq_cvrp import BQ as BQforCVRP
from models.job_shop import JobShop
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.test_optimizer import SETTINGS

CASES = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, own_frame=True, successor_loss=1)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, own_frame=True, route_loss=1)),
    "cvrp, far first": (CVRP(6, [12, 14], far_first=True), lambda: BQforCVRP(16, 1, 2, 32, False, route_loss=0)),
    "jssp": (JSSP([[3, 4]], [3, 4]), lambda: JobShop(16, 1, 2, 32, lookahead=False, order_loss=0)),
    "jssp, all options": (
        JSSP([[3, 4]], [3, 4], chronological=True, reversal=True),
        lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=3),
    ),
}
SAVINGS = CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, True, route_loss=1, savings=[1, 1.3])
META = torch.device("meta")


@pytest.mark.parametrize("case", [*CASES, "cvrp, savings"])
def test_a_training_step_waits_for_nothing(case, monkeypatch):
    """Savings do, for a device that has values."""
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it does not know the device
    problem, network = CASES.get(case, SAVINGS)
    policy = network()
    instances = problem.generate(6, torch.Generator().manual_seed(2))
    found = search(problem, policy, instances, methods.sampling(1), torch.Generator().manual_seed(3))
    dataset = PseudoExperts()
    dataset.add("random", instances, *found.best())
    policy = policy.to(META)
    _, muon = optimizer_of(policy, SETTINGS).optimizers  # torch's fused Adam does not know the device
    for seed in range(4):
        example = dataset.batch(problem, 16, torch.Generator().manual_seed(seed), META)
        logits, further = imitate(problem, policy, *example[:3], "float32")
        (F.cross_entropy(logits, example.rest[:, 0]) + further).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        muon.step()
        assert all(parameter.grad.is_meta for parameter in policy.parameters() if parameter.grad is not None)


class Waits(TorchDispatchMode):
    """Counts the operations whose result Python needs: a value, or the size of a tensor."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "unique", "_unique2", "bincount")

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name == "index" and any(t is not None and t.dtype == torch.bool for t in args[1])
        self.count += name in self.WAITING or by_mask
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_a_search_waits_once(case):
    """To pack the rows that need the network; and once more per round and search for the checks and sums."""
    problem, network = CASES[case]
    instances = problem.generate(6, torch.Generator().manual_seed(2))
    rounds, horizon = 3, problem.horizon(instances)
    with Waits() as waits:
        search(problem, network().eval(), instances, methods.gumbeldore(8, rounds, 0.3), keys=torch.arange(6))
    assert rounds * horizon <= waits.count <= rounds * (horizon + 6) + 8
