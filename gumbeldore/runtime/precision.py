"""Number formats of the networks: bf16 or float32. The sampler's own numbers are always float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.interfaces import Policy

FORMATS = {"bf16": torch.bfloat16, "float32": torch.float32}
PRECISIONS = ("auto", *FORMATS)


def resolve_precision(precision: str, device: torch.device) -> str:
    """'bf16' or 'float32'. 'auto' is bf16 on a GPU with instructions for it, and float32 on every CPU.

    So every CPU finds the same solutions. Not every CPU with bf16 instructions is faster with them (docs/results.md).

    Raises ValueError for an unknown name, and for bf16 on a GPU without instructions for it.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == "auto":
        return "bf16" if has_bf16 else "float32"
    if precision == "bf16" and device.type == "cuda" and not has_bf16:
        raise ValueError("precision=bf16 needs bf16 instructions, which this GPU does not have; use precision=float32")
    return precision


def dtype_of(precision: str) -> torch.dtype:
    """The number format of a resolved precision. Raises ValueError for any other name."""
    if precision not in FORMATS:
        raise ValueError(f"a resolved precision is one of {', '.join(FORMATS)}, got {precision!r}")
    return FORMATS[precision]


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context in which networks run; `precision` is already resolved."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype_of(precision) == torch.bfloat16)


class InPrecision(Policy):
    """A policy whose network runs in a precision; the problem around it stays in float32."""

    def __init__(self, policy: Policy, device: torch.device, precision: str):
        super().__init__()
        dtype_of(precision)  # refuses a name that is not resolved
        self.policy, self.device, self.precision = policy, device, precision
        self.problem = policy.problem

    def encode(self, instance: Any) -> Any:
        with autocast(self.device, self.precision):
            return self.policy.encode(instance)

    def canonical_state(self, instance: Any, state: Any) -> Any:
        return self.policy.canonical_state(instance, state)

    def forward(self, context: Any, state: Any) -> Tensor:
        with autocast(self.device, self.precision):
            return self.policy(context, state)

    def with_auxiliary_loss(self, context: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        with autocast(self.device, self.precision):
            return self.policy.with_auxiliary_loss(context, state, remaining_actions)
