"""Softmax attention of tokens within their rows, or within lines of a grid."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax attention over [R, heads, n, d]; `bias`, which expands to [R, heads, n, n], is added to the scores.

    On CPUs explicit matrix products beat torch's fused attention 1.3 to 4 times on the short sequences of this field,
    and only they train fast in bf16 (docs/decisions.md).
    """
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, None if bias is None else bias.to(query.dtype))
    scores = query @ (key * key.shape[-1] ** -0.5).transpose(-1, -2)
    if bias is not None:
        scores = scores + bias
    return _softmax(scores).to(value.dtype) @ value


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension.

    Where that is shorter than the 16 lanes of AVX-512, torch's own does not use them and takes about 8 times as long;
    over the first dimension of a transposed copy it does (docs/decisions.md).
    """
    keys = scores.shape[-1]
    if keys >= 16:
        return scores.softmax(dim=-1)
    return scores.reshape(-1, keys).t().contiguous().softmax(dim=0).t().reshape(scores.shape)


HIDDEN = -1e9  # a score that no softmax sees; finite, since all keys of a query may be hidden


class Grid(NamedTuple):
    """Where the tokens of all rows lie on lines within which they attend."""

    place: Tensor  # [R * n] int64 in 0..lines*size-1, line by line
    token: Tensor  # [lines, size] int64, the other way round; -1: none

    @classmethod
    def of(cls, place: Tensor, lines: int, size: int) -> Grid:
        token = torch.full((lines * size,), -1, device=place.device)
        return cls(place, token.index_copy_(0, place, torch.arange(len(place), device=place.device)).view(lines, size))


def multi_head_attention(qkv: Tensor, heads: int, bias: Tensor | None, grid: Grid | None) -> Tensor:
    """Queries, keys and values [R, n, 3 * width] of all heads to [R, n, width].

    `bias` is added to the scores: it expands to [R, heads, n, n], or with a grid to [lines, heads, size, size]. Places
    of the grid without a token are hidden from all queries.
    """
    rows, count, _ = qkv.shape
    if grid is not None:
        empty = qkv.new_zeros(grid.token.numel(), qkv.shape[-1])
        qkv = empty.index_copy_(0, grid.place, qkv.flatten(0, 1)).view(*grid.token.shape, -1)
        hidden = torch.where(grid.token < 0, HIDDEN, 0.0)[:, None, None, :]
        bias = hidden if bias is None else hidden + bias
    query, key, value = qkv.view(*qkv.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
    x = attention(query, key, value, bias).transpose(1, 2).flatten(2)
    if grid is not None:
        x = x.flatten(0, 1).index_select(0, grid.place).view(rows, count, -1)
    return x
