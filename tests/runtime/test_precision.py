"""Number formats of the networks."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gumbeldore.interfaces import Policy
from gumbeldore.runtime.precision import InPrecision, autocast, dtype_of, resolve_precision

CPU = torch.device("cpu")


class Numbers(NamedTuple):
    value: Tensor  # [R]


class Rows(Policy):
    """Logits that tell the rows apart."""

    def forward(self, context: Numbers, state: Numbers) -> Tensor:
        return (10 * context.value + state.value)[:, None].expand(-1, 2)


@pytest.mark.parametrize("has_bf16", [True, False])
def test_auto_is_float32_on_every_cpu_and_bf16_on_gpus_that_have_it(has_bf16, monkeypatch):
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bf16)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bf16, raising=False)
    assert resolve_precision("auto", CPU) == "float32" and resolve_precision("bf16", CPU) == "bf16"
    assert resolve_precision("auto", gpu) == ("bf16" if has_bf16 else "float32")
    for device in (CPU, gpu):
        assert resolve_precision("float32", device) == "float32"
        with pytest.raises(ValueError, match="precision must be one of auto, bf16, float32, got 'half'"):
            resolve_precision("half", device)
    if has_bf16:
        assert resolve_precision("bf16", gpu) == "bf16"
    else:
        with pytest.raises(ValueError, match="precision=bf16 needs bf16 instructions, which this GPU does not have"):
            resolve_precision("bf16", gpu)


@pytest.mark.parametrize("precision", ["bfloat16", "auto", "float16", ""])
def test_a_name_that_is_not_resolved_is_refused_and_nothing_runs_in_float32_instead(precision):
    for use in (dtype_of, lambda name: autocast(CPU, name), lambda name: InPrecision(Rows(), CPU, name)):
        with pytest.raises(ValueError, match="a resolved precision is one of bf16, float32, got"):
            use(precision)


class Halving(Rows):
    """Two numbers at a time are one canonical state, and the auxiliary loss is the sum of the decisions to come."""

    problem = "halving"

    def canonical_state(self, instance: Numbers, state: Numbers) -> Numbers:
        return Numbers(state.value // 2)

    def with_auxiliary_loss(self, context: Numbers, state: Numbers, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        assert product.dtype == torch.bfloat16
        return self(context, state), remaining_actions.sum().float()


def test_all_of_the_policy_is_asked_and_the_network_in_its_precision():
    within = InPrecision(Halving(), CPU, "bf16")
    numbers = Numbers(torch.arange(4))
    assert within.problem == "halving"
    assert within.canonical_state(numbers, numbers).value.tolist() == [0, 0, 1, 1]
    logits, loss = within.with_auxiliary_loss(numbers, numbers, torch.ones(4, 3))
    assert logits[:, 0].tolist() == [0.0, 11.0, 22.0, 33.0] and loss == 12
