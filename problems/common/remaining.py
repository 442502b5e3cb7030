"""What is left to do, as ascending numbers [R, n], the same count in every row."""

from __future__ import annotations

import torch
from torch import Tensor


def without(remaining: Tensor, done: Tensor) -> Tensor:
    """remaining [R, n] without the one number done [R, 1] of each row: [R, n-1]."""
    here, next_one = remaining[:, :-1], remaining[:, 1:]
    return torch.where(here < done, here, next_one)  # from its place on everything moves up


def unmarked(marked: Tensor, count: int) -> Tensor:
    """The numbers [R, count] not marked in bool [R, N], of which each row has `count`."""
    return marked.to(torch.uint8).argsort(dim=1, stable=True)[:, :count]  # a stable sort lists them first, ascending
