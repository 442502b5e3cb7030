"""Transformer pieces without any problem's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models import fused

SCORES_AT_ONCE = 2**27  # attention scores held at once while sampling, where they are held at all
NUMBERS_AT_ONCE = 2**20  # of all tokens; where attention is fused, more do not fit the cache (see docs/log.md)


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax attention over [R, heads, n, d]; `bias`, which expands to [R, heads, n, n], is added to the scores.

    On CPUs, where `fused` does not apply, explicit matrix products beat torch's fused kernel 1.3 to 4 times on the
    short sequences of this field (measured; see docs/log.md), and only they train fast in bf16.
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
    over the first dimension of a transposed copy it does (measured; see docs/log.md).
    """
    keys = scores.shape[-1]
    if keys >= 16:
        return scores.softmax(dim=-1)
    return scores.reshape(-1, keys).t().contiguous().softmax(dim=0).t().reshape(scores.shape)


class Grid(NamedTuple):
    """Where the tokens of all rows lie on lines within which they attend; places without a token hold zeros."""

    place: Tensor  # [R * n] int64 in 0..lines*size-1, line by line
    token: Tensor  # [lines, size] int64, the other way round; -1: none

    @classmethod
    def of(cls, place: Tensor, lines: int, size: int) -> Grid:
        token = torch.full((lines * size,), -1, device=place.device)
        return cls(place, token.index_copy_(0, place, torch.arange(len(place), device=place.device)).view(lines, size))


def mix(qkv: Tensor, heads: int, bias: Tensor | None, grid: Grid | None) -> Tensor:
    """Attention: queries, keys and values [R, n, 3 * width] of all heads to [R, n, width]."""
    rows, count, _ = qkv.shape
    if fused.applies(qkv.device) and fused.fits(qkv, bias):
        token = torch.arange(rows * count).view(rows, count) if grid is None else grid.token
        return fused.attention(qkv.flatten(0, 1), heads, bias, token).view(rows, count, -1)
    if grid is not None:
        empty = qkv.new_zeros(grid.token.numel(), qkv.shape[-1])
        qkv = empty.index_copy_(0, grid.place, qkv.flatten(0, 1)).view(*grid.token.shape, -1)
    query, key, value = qkv.view(*qkv.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
    mixed = attention(query, key, value, bias).transpose(1, 2).flatten(2)
    if grid is not None:
        mixed = mixed.flatten(0, 1).index_select(0, grid.place).view(rows, count, -1)
    return mixed


class Linears(nn.Module):
    """Several linear maps of one input side by side: one product, but to an optimizer matrices of their own."""

    def __init__(self, count: int, inputs: int, outputs: int):
        super().__init__()
        bound = inputs**-0.5  # as nn.Linear
        self.weight = nn.Parameter(torch.empty(count, outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(count * outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.flatten(0, 1), self.bias)


class ReZeroLayer(nn.Module):
    """x + a*attention(x), then x + a*feedforward(x), with one learnt a that starts at 0; no normalisation."""

    def __init__(self, width: int, heads: int, feedforward: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.heads = heads
        self.qkv = Linears(3, width, width)
        self.out = nn.Linear(width, width)
        self.widen = nn.Linear(width, feedforward)
        self.narrow = nn.Linear(feedforward, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, bias: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        """[R, n, width] -> [R, n, width]

        Tokens attend to all of their row, or with `grid` to those in their line of it. `bias` expands to the scores,
        [R, heads, n, n] or [lines, heads, size, size].
        """
        x = x + self.scale * self.out(mix(self.qkv(x), self.heads, bias, grid))
        return x + self.scale * self.narrow(F.gelu(self.widen(x)))


def in_parts(network: Callable[[Any, Any], Tensor], context: Any, state: Any, scores: int, numbers: int) -> Tensor:
    """network(context, state), both NamedTuples of [R, ...]; without gradients in equal parts of what fits at once.

    `scores` and `numbers` are those of a row: of attention in each layer, and of its tokens together. The batch is
    halved until it fits, so that of whatever size it is, the parts have few sizes.
    """
    size, limit = (numbers, NUMBERS_AT_ONCE) if fused.applies(state[0].device) else (scores, SCORES_AT_ONCE)
    rows = part = state[0].shape[0]
    while part > 1 and part * size > limit and not torch.is_grad_enabled():
        part = -(-part // 2)
    if part == rows:
        return network(context, state)

    def piece(tensors: Any, first: int) -> Any:
        return type(tensors)(*(field[first : first + part] for field in tensors))

    return torch.cat([network(piece(context, first), piece(state, first)) for first in range(0, rows, part)])
