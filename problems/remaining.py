"""What is left to do, as ascending numbers [R, n], the same count in every row."""

from __future__ import annotations

import torch
from torch import Tensor


def without(remaining: Tensor, done: Tensor) -> Tensor:
    """remaining [R, n] without the one number done [R, 1] of each row: [R, n-1]."""
    place = (remaining < done).sum(dim=1, keepdim=True)  # those from here on move up by one place
    kept = torch.arange(remaining.shape[1] - 1, device=done.device)
    return remaining.gather(1, kept + (kept >= place))


def unmarked(marked: Tensor, count: int) -> Tensor:
    """The numbers [R, count] not marked in bool [R, N], of which each row has `count`."""
    return marked.to(torch.uint8).argsort(dim=1, stable=True)[:, :count]  # a stable sort lists them first, ascending
