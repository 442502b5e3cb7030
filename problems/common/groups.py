"""Elements that belong to groups, such as operations to jobs or to machines, row by row."""

from __future__ import annotations

import torch
from torch import Tensor


def sizes_of(group: Tensor, count: int) -> Tensor:
    """How many elements each group has [R, count]; group [R, n] of each element, 0..count-1."""
    return group.new_zeros(len(group), count).scatter_add_(1, group, torch.ones_like(group))


def ranks_of(group: Tensor, sizes: Tensor) -> Tensor:
    """How many elements of its group come before each element [R, n]; sizes [R, count] as `sizes_of` gives them."""
    ordered, order = group.sort(dim=1, stable=True)
    first = (sizes.cumsum(dim=1) - sizes).gather(1, ordered)
    return torch.empty_like(group).scatter_(1, order, torch.arange(group.shape[1], device=group.device) - first)
