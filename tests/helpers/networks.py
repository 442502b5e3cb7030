"""Networks whose every layer counts."""

from __future__ import annotations

import pytest
from torch import nn

from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.job_shop import JobShop
from models.lehd_cvrp import LEHD as LEHDforCVRP
from models.lehd_tsp import LEHD
from models.published import CVRPBQ
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP

WAYS = ("groups", "dense")  # of attention within jobs and within machines


def attend_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention in groups, or over all pairs of operations."""
    monkeypatch.setattr("models.job_shop.MAX_DENSE_RATIO", {"groups": 0, "dense": 1e9}[way])


def awake(network: nn.Module) -> nn.Module:
    """The network, with ReZero layers that no longer do nothing, as they do at first."""
    for name, parameter in network.named_parameters():
        if name.endswith("scale"):
            nn.init.constant_(parameter, 0.5)
    return network


CASES = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=1)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, canonical_coordinates=True, route_loss=1)),
    "jssp": (
        JSSP([[3, 4]], [[3, 4]], reversal=True),
        lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=3),
    ),
    "tsp, lehd": (TSP(7), lambda: LEHD(16, 1, 2, 32, successor_loss=1)),
    "cvrp, lehd": (CVRP(6, [12, 14]), lambda: LEHDforCVRP(16, 1, 2, 32, route_loss=1)),
    "cvrp, published": (CVRP(6, [12, 14]), lambda: CVRPBQ(16, 1, 2, 32)),
}
