"""Number formats, and the few numbers of rows that a network sees in bf16 on a CPU."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gumbeldore.interfaces import Policy
from gumbeldore.runtime.precision import InPrecision, autocast, bucket_size, dtype_of, has_bf16, resolve_precision

CPU = torch.device("cpu")


class Numbers(NamedTuple):
    value: Tensor  # [R]


class Recorder(Policy):
    """Logits that tell the rows apart, and a list of the numbers of rows that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def forward(self, context: Numbers, state: Numbers) -> Tensor:
        self.asked.append(len(state.value))
        assert len(context.value) == len(state.value)
        return (10 * context.value + state.value)[:, None].expand(-1, 2)


def test_few_sizes_are_few_and_close():
    sizes = [bucket_size(rows) for rows in range(1, 4097)]
    assert all(rows <= size <= 1.25 * rows for rows, size in enumerate(sizes, start=1))
    assert sorted(set(sizes))[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]
    assert len(set(sizes)) == 3 + 4 * 10 + 1  # four between one power of two and the next
    assert sizes == sorted(sizes) and all(bucket_size(size) == size for size in sizes)


@pytest.mark.parametrize(("precision", "asked"), [("bf16", [10, 10, 10, 0, 1]), ("float32", [9, 10, 9, 0, 1])])
def test_bf16_on_a_cpu_asks_for_few_sizes_and_every_row_gets_its_own_logits(precision, asked):
    policy = Recorder()
    within = InPrecision(policy, CPU, precision)
    for rows in (9, 10, 9, 0, 1):
        context, state = Numbers(torch.arange(rows) % 3), Numbers(torch.arange(rows) % 5)
        logits = within(context, state)
        assert logits.tolist() == [[10.0 * (row % 3) + row % 5] * 2 for row in range(rows)]
    assert policy.asked == asked


def test_precisions_are_resolved():
    assert resolve_precision("auto", CPU) == ("bf16" if has_bf16(CPU) else "float32")
    assert resolve_precision("float32", CPU) == "float32"
    with pytest.raises(ValueError, match="precision must be one of auto, bf16, float32, got 'half'"):
        resolve_precision("half", CPU)


@pytest.mark.parametrize("precision", ["bfloat16", "auto", "float16", ""])
def test_a_name_that_is_not_resolved_is_refused_and_nothing_runs_in_float32_instead(precision):
    for use in (dtype_of, lambda name: autocast(CPU, name), lambda name: InPrecision(Recorder(), CPU, name)):
        with pytest.raises(ValueError, match="a resolved precision is one of bf16, float32, got"):
            use(precision)


class Halving(Recorder):
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
