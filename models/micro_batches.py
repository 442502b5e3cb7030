"""Micro-batches: a large batch passes a network in parts that fit into a GPU's memory, or into a CPU's cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, take
from gumbeldore.runtime.gpu import gpu_memory

# The most that one micro-batch takes.
CPU_MAX_ACTIVATIONS = 5 * 2**18  # the fastest, or nearly so, of the sizes tried (docs/decisions.md)
CPU_MAX_SCORES = 2**27
GPU_MEMORY_DIVISOR = 4  # a forward pass takes at most this part of a GPU's memory

FLOATS_PER_ACTIVATION = 16  # a forward pass holds about 16 float32 numbers for each activation


class RowSize(NamedTuple):
    """What one row takes in a forward pass."""

    scores: int  # attention scores of one layer
    activations: int  # width times the number of tokens


def in_micro_batches(forward: Callable[..., Tensor], row: RowSize, *inputs: Any) -> Tensor:
    """forward(*inputs) [R, ...] of NamedTuples of [R, ...], in micro-batches unless gradients are needed.

    The batch is halved until it fits. So the micro-batches have few sizes, whatever the size of the batch.
    """
    rows = size = batch_size(inputs[0])
    limit = math.inf if torch.is_grad_enabled() else max_rows(row, inputs[0][0].device)
    while size > 1 and size > limit:
        size = -(-size // 2)
    if size == rows:
        return forward(*inputs)
    parts = (slice(first, first + size) for first in range(0, rows, size))
    return torch.cat([forward(*(take(x, part) for x in inputs)) for part in parts])


def max_rows(row: RowSize, device: torch.device) -> float:
    """How many rows of this size fit into a GPU's memory, or into a CPU's cache."""
    if device.type == "cuda":
        floats = gpu_memory(device) // GPU_MEMORY_DIVISOR // torch.float32.itemsize
        return floats / (row.scores + FLOATS_PER_ACTIVATION * row.activations)
    return min(CPU_MAX_SCORES / max(1, row.scores), CPU_MAX_ACTIVATIONS / row.activations)
