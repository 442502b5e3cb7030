"""The transposition table: a state that several sequences of decisions reach is evaluated once."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from gumbeldore.sampler.trie import Trie
from gumbeldore.seeding import GOLDEN, mix, xor_shifted

AS_INTEGERS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}


def first_in_same_state(trie: Trie, depth: int, filled: int, hashes: Tensor) -> Tensor:
    """Enter the states of new nodes into the table; returns the first node in each of these states.

    The table stays sorted: a step moves its entries, and sorts the new ones alone.

    Arguments:
        filled: the new nodes are in the slots filled .. filled + K - 1
        hashes: [B, K] of their states (`state_hash`), or NO_HASH

    Returns the place [B, K] (see `trie.places`) of the first node of this depth and instance with the same hash, by
    slot and then by beam. It may be the new node itself.
    """
    batch, width = hashes.shape
    copies = trie.state_hash.shape[-1] // trie.slots
    table, entries = (field[depth % len(field)] for field in (trie.state_hash, trie.state_entry))  # [b, W * C]
    known, more = filled * copies, width * copies
    asked = hashes.view(-1, copies, width).mT.flatten(1)  # [b, K * C]
    new, order = asked.sort(dim=1, stable=True)  # among equal hashes the earliest comes first
    old, old_entries = table[:, :known].clone(), entries[:, :known].clone()
    count = torch.arange(known + more, device=hashes.device)
    for values, places, others, right in ((old, old_entries, new, False), (new, known + order, old, True)):
        at = torch.searchsorted(others, values, right=right) + count[: values.shape[1]]  # in both together
        table.scatter_(1, at, values)
        entries.scatter_(1, at, places)
    entry = entries.gather(1, torch.searchsorted(table[:, : known + more].contiguous(), asked))
    slot, copy = entry // copies, entry % copies
    instance = torch.arange(len(table), device=hashes.device)[:, None]
    place = (instance * copies + copy) * trie.slots + slot
    return place.view(-1, width, copies).mT.reshape(batch, width)


def state_hash(state: Any) -> Tensor:
    """A hash [R] int64 of every bit of a state, a NamedTuple of [R, ...].

    A policy depends on the instance and on its canonical state alone: states of one instance with equal hashes
    have the same logits, whatever decisions led to them. Two different states have equal hashes with a probability of
    about 2^-64, and never if they differ in one number only: each operation on a number can be undone.
    """
    names = getattr(state, "_fields", range(len(state)))  # of solutions, a plain tuple is hashed
    fields = {id(field): (name, field) for name, field in zip(names, state, strict=True)}.values()  # each tensor once
    numbers = torch.cat([_as_integers(name, field.reshape(len(field), -1)) for name, field in fields], dim=1).long()
    before, after = _multipliers(numbers.shape[1], numbers.device)
    # The shift brings differences in high bits, all that some numbers have, to the low ones.
    total = xor_shifted(numbers.mul_(before), 32).mul_(after).sum(dim=1)
    return mix(total + GOLDEN)  # mix(0) is 0, which stands for no state (NO_HASH)


def _as_integers(name: str | int, field: Tensor) -> Tensor:
    if not field.is_floating_point() and not field.is_complex():
        return field
    if field.dtype not in AS_INTEGERS:
        types = ", ".join(str(dtype) for dtype in AS_INTEGERS)
        raise ValueError(f"field {name} of the state must be bool, integers, or one of {types}; it is {field.dtype}")
    bits = field.view(AS_INTEGERS[field.dtype])
    return xor_shifted(bits, 32) if bits.dtype == torch.int64 else bits  # most doubles have no low bits to multiply


@cache
def _multipliers(count: int, device: torch.device) -> Tensor:
    """Two random odd numbers [2, count] for every place."""
    return mix(torch.arange(1, 2 * count + 1, device=device) * GOLDEN).view(2, count) | 1
