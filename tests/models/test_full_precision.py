"""What reads coordinates and what writes logits is not rounded to bf16."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.runtime.precision import InPrecision
from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.job_shop import JobShop
from models.layers import FullPrecisionLinear
from models.lehd_cvrp import LEHD as LEHDforCVRP
from models.lehd_tsp import LEHD
from models.published import CVRPBQ
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.networks import awake

CPU = torch.device("cpu")
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


def is_bf16(x: torch.Tensor) -> torch.Tensor:
    """Which numbers bf16 can hold."""
    return x == x.to(torch.bfloat16)


@pytest.mark.parametrize("case", CASES)
def test_the_first_and_the_last_map_of_a_network(case):
    torch.manual_seed(0)
    problem, network = CASES[case]
    policy = awake(network()).eval()
    assert isinstance(policy.embed, FullPrecisionLinear) and isinstance(policy.head, FullPrecisionLinear)
    seen = []
    policy.embed.register_forward_hook(lambda module, given, found: seen.append(found))
    instances = problem.generate(6, torch.Generator().manual_seed(0))
    asked = InPrecision(policy, CPU, "bf16")
    logits = asked(asked.encode(instances), problem.reset(instances))
    for numbers in (*seen, logits[problem.mask(instances, problem.reset(instances))]):
        assert numbers.dtype == torch.float32 and is_bf16(numbers).double().mean() < 0.1
