"""What reads coordinates and what writes logits is not rounded to bf16."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.runtime.precision import InPrecision
from models.layers import FullPrecisionLinear
from tests.helpers.networks import CASES, awake

CPU = torch.device("cpu")


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
