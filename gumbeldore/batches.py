"""NamedTuples of tensors with a common leading dimension, the batch: instances, states, contexts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor

Tensors = TypeVar("Tensors", bound=tuple)


def take(tensors: Tensors, rows: Tensor | slice) -> Tensors:
    """The given rows of every tensor of a NamedTuple: a slice, or numbers int64 [n] from 0 on the same device.

    Fields that share a tensor share one in the result, too.
    """
    each = {id(tensor): tensor for tensor in tensors}
    if isinstance(rows, slice):
        taken = {key: tensor[rows] for key, tensor in each.items()}
    else:
        taken = {key: tensor.index_select(0, rows) for key, tensor in each.items()}  # several times as fast
    return type(tensors)(*(taken[id(tensor)] for tensor in tensors))


def repeated(tensors: Tensors, count: int) -> Tensors:
    """Every row of a NamedTuple of tensors `count` times, one after the other."""
    return take(tensors, torch.arange(batch_size(tensors), device=tensors[0].device).repeat_interleave(count))


def joined(parts: Sequence[Tensors]) -> Tensors:
    """NamedTuples one below the other: tensors along the batch, and lists; numbers are added up; None stays."""
    return type(parts[0])(*map(_joined, zip(*parts, strict=True)))


def _joined(values: tuple[Any, ...]) -> Any:
    if isinstance(values[0], Tensor):
        return torch.cat(values)
    if isinstance(values[0], list):
        return list(chain(*values))
    return None if values[0] is None else sum(values)


def to(tensors: Tensors, device: torch.device | str) -> Tensors:
    """Every tensor of a NamedTuple on `device`."""
    return type(tensors)(*(moved(tensor, torch.device(device)) for tensor in tensors))


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`. From memory that is not pinned a GPU copies more than 64 KiB only once it is idle."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.contiguous().pin_memory()  # an expanded tensor cannot be pinned
    return tensor.to(device, non_blocking=True)


def batch_size(tensors: tuple) -> int:
    """Length of the leading dimension of a NamedTuple of tensors."""
    return tensors[0].shape[0]
