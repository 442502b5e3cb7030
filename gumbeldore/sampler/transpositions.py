"""A hash of a state, by which a search finds states that it has met by other decisions."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from gumbeldore.seeding import GOLDEN, mix, xor_shifted

AS_INTEGERS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.bfloat16: torch.int16}


def state_hash(state: Any) -> Tensor:
    """A hash [R] int64 of every bit of a state, a NamedTuple of [R, ...].

    The logits depend on nothing but the instance and the canonical state (`Policy.canonical_state`). So two states of
    one instance whose canonical states have equal hashes have the same logits, whatever decisions led to them. Two
    different states have equal hashes with a probability of about 2^-64, and never if they differ in one number only:
    every operation on a single number can be undone.
    """
    fields = {id(field): field for field in state}.values()  # two that are one tensor say nothing more
    numbers = torch.cat([_as_integers(field.reshape(len(field), -1)) for field in fields], dim=1).long()
    before, after = _multipliers(numbers.shape[1], numbers.device)
    # The shift brings differences in high bits, all that some numbers have, to the low ones.
    total = xor_shifted(numbers.mul_(before), 32).mul_(after).sum(dim=1)
    return mix(total + GOLDEN)  # mix(0) is 0, which stands for no state (trie.NO_KEY)


def _as_integers(field: Tensor) -> Tensor:
    if not field.is_floating_point():
        return field
    bits = field.view(AS_INTEGERS[field.dtype])
    return xor_shifted(bits, 32) if bits.dtype == torch.int64 else bits  # most doubles have no low bits to multiply


@cache
def _multipliers(count: int, device: torch.device) -> Tensor:
    """Two random odd numbers [2, count] for every place."""
    return mix(torch.arange(1, 2 * count + 1, device=device) * GOLDEN).view(2, count) | 1
