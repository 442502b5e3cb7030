"""Micro-batches: a large batch goes through a network in parts that fit a GPU's memory, or a CPU's cache."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gumbeldore.runtime.memory import gpu_memory

ACTIVATIONS_AT_ONCE = 5 * 2**18  # on a CPU: the fastest, or nearly so, of the sizes tried (docs/decisions.md)
SCORES_AT_ONCE = 2**27  # attention scores of a layer, on a CPU
GPU_SHARE = 4  # a forward pass takes at most this part of a GPU's memory,
HELD = 16  # where it holds about so many float32 numbers for each activation
GROUPS_AT_ONCE = 2**16 - 1  # torch's fused attention takes no more on a GPU


class RowSize(NamedTuple):
    """What one row takes in a forward pass."""

    scores: int  # attention scores of one layer
    activations: int  # width times the number of tokens
    groups: int = 1  # of tokens that attend to each other


class Network(Protocol):
    """A network whose forward pass may be cut into micro-batches."""

    def forward_at_once(self, context: Any, state: Any) -> Tensor: ...

    def row_size(self, context: Any, state: Any) -> RowSize: ...


def in_micro_batches(network: Network, context: Any, state: Any) -> Tensor:
    """network.forward_at_once(context, state) [R, ...], both NamedTuples of [R, ...]; without gradients in parts.

    The batch is halved until it fits. So the parts have few sizes, whatever the size of the batch.
    """
    rows = part = state[0].shape[0]
    room = math.inf if torch.is_grad_enabled() else rows_at_once(network.row_size(context, state), state[0].device)
    while part > 1 and part > room:
        part = -(-part // 2)
    if part == rows:
        return network.forward_at_once(context, state)
    parts = (slice(first, first + part) for first in range(0, rows, part))
    return torch.cat([network.forward_at_once(_rows(context, each), _rows(state, each)) for each in parts])


def rows_at_once(row: RowSize, device: torch.device) -> float:
    """How many rows of this size fit at once into a GPU's memory, or into a CPU's cache."""
    if device.type == "cuda":
        numbers = gpu_memory(device) // GPU_SHARE // torch.float32.itemsize
        return min(numbers / (row.scores + HELD * row.activations), GROUPS_AT_ONCE / row.groups)
    return min(SCORES_AT_ONCE / max(1, row.scores), ACTIVATIONS_AT_ONCE / row.activations)


def _rows(tensors: Any, rows: slice) -> Any:
    return type(tensors)(*(field[rows] for field in tensors))
