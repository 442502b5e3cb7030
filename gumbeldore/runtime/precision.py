"""bf16 where the hardware computes it faster, float32 otherwise; the sampler's own numbers are always float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, take
from gumbeldore.interfaces import Policy

FORMATS = {"bf16": torch.bfloat16, "float32": torch.float32}
PRECISIONS = ("auto", *FORMATS)


def resolve_precision(precision: str, device: torch.device) -> str:
    """'bf16' or 'float32'; 'auto' asks the hardware.

    Raises ValueError for an unknown name, or for bf16 on hardware without instructions for it.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if precision == "auto":
        return "bf16" if has_bf16(device) else "float32"
    if precision == "bf16" and not has_bf16(device):
        raise ValueError(f"precision=bf16 needs bf16 instructions, which {device.type} has not; use precision=float32")
    return precision


def has_bf16(device: torch.device) -> bool:
    """Whether matrix products in bf16 run on instructions of their own."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # not public, so asked for with care
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)


def dtype_of(precision: str) -> torch.dtype:
    """The number format of a resolved precision. Raises ValueError for any other name."""
    if precision not in FORMATS:
        raise ValueError(f"a resolved precision is one of {', '.join(FORMATS)}, got {precision!r}")
    return FORMATS[precision]


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context in which networks run; `precision` is already resolved."""
    return torch.autocast(device.type, torch.bfloat16, enabled=dtype_of(precision) == torch.bfloat16)


def bucket_size(rows: int) -> int:
    """The smallest of 1, 2, 3, and of 4, 5, 6 and 7 times powers of two, that is not less than `rows`."""
    step = 1 << max(0, rows.bit_length() - 3)
    return -(-rows // step) * step


class InPrecision(Policy):
    """A policy whose network runs in a precision; the problem around it stays in float32.

    For bf16 on a CPU, torch has oneDNN compile a kernel for every new shape, about 12 ms for all of a network's, and
    a search has other numbers of rows at every step. Repeating the last row up to one of a few sizes costs 8% more
    rows and saves more than that (docs/decisions.md).
    """

    def __init__(self, policy: Policy, device: torch.device, precision: str):
        super().__init__()
        self.policy, self.device, self.precision = policy, device, precision
        self.problem = policy.problem
        self.pads = dtype_of(precision) == torch.bfloat16 and device.type == "cpu"

    def encode(self, instance: Any) -> Any:
        with autocast(self.device, self.precision):
            return self.policy.encode(instance)

    def forward(self, context: Any, state: Any) -> Tensor:
        rows = batch_size(state)
        if self.pads and bucket_size(rows) > rows:
            repeated = torch.arange(bucket_size(rows)).clamp_(max=rows - 1)
            context, state = take(context, repeated), take(state, repeated)
        with autocast(self.device, self.precision):
            return self.policy(context, state)[:rows]

    def canonical_state(self, instance: Any, state: Any) -> Any:
        return self.policy.canonical_state(instance, state)

    def with_auxiliary_loss(self, context: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        with autocast(self.device, self.precision):
            return self.policy.with_auxiliary_loss(context, state, remaining_actions)
