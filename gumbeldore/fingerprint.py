"""One number for all that a network can see of a state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.seeding import GOLDEN, mix

AS_INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}


def fingerprint(state: Any) -> Tensor:
    """A hash [R] int64 of every bit of a state, a NamedTuple of [R, ...].

    A policy sees the instance and the state alone (or less of it, see `Policy.seen`), so states of one instance with
    equal fingerprints have the same logits, by whatever decisions they were reached. Two different ones agree with a
    probability of 2^-64. No two numbers below 2^32 at different places make the same sum: multiples of GOLDEN are
    further apart than that.
    """
    total, place = torch.zeros((), dtype=torch.int64, device=state[0].device), 1
    for field in state:
        numbers = field.flatten(1) if field.dim() > 1 else field[:, None]
        numbers = numbers.view(AS_INTEGERS[field.dtype]) if field.is_floating_point() else numbers
        position = torch.arange(place, place + numbers.shape[1], device=field.device)
        total = total + mix(numbers.long() + position * GOLDEN).sum(dim=1)
        place += numbers.shape[1]
    return mix(total)
