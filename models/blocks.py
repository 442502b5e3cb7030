"""Transformer pieces without any problem's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.kernels import attention as fused
from models.kernels import compiler, pointwise

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


class Product(NamedTuple):
    """What a linear map makes. Where it leaves a bias, whoever reads it adds that, which saves a pass over memory."""

    numbers: Tensor
    bias: Tensor | None

    def whole(self) -> Tensor:
        return self.numbers if self.bias is None else self.numbers + self.bias.to(self.numbers.dtype)


class Linears(nn.Module):
    """Several linear maps of one input side by side: one product, but to an optimizer matrices of their own."""

    def __init__(self, count: int, inputs: int, outputs: int):
        super().__init__()
        bound = inputs**-0.5  # as nn.Linear
        self.weight = nn.Parameter(torch.empty(count, outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(count * outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.flatten(0, 1), self.bias)


def product(linear: nn.Linear | Linears, x: Tensor) -> Product:
    weight, bias = linear.weight.flatten(0, -2), linear.bias
    if compiler.in_one_pass(x.device) and weight.dtype == torch.float32:
        return Product(F.linear(x, weight), bias)
    return Product(F.linear(x, weight, bias), None)


def mix(qkv: Product, heads: int, bias: Tensor | None, grid: Grid | None) -> Tensor:
    """Attention: queries, keys and values [R, n, 3 * width] of all heads to [R, n, width]."""
    rows, count, _ = qkv.numbers.shape
    if compiler.applies(qkv.numbers.device) and fused.fits(qkv.numbers, bias):
        token = torch.arange(rows * count).view(rows, count) if grid is None else grid.token
        return fused.attention(qkv.numbers.flatten(0, 1), qkv.bias, heads, bias, token).view(rows, count, -1)
    together = qkv.whole()
    if grid is not None:
        empty = together.new_zeros(grid.token.numel(), together.shape[-1])
        together = empty.index_copy_(0, grid.place, together.flatten(0, 1)).view(*grid.token.shape, -1)
    query, key, value = together.view(*together.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
    mixed = attention(query, key, value, bias).transpose(1, 2).flatten(2)
    if grid is not None:
        mixed = mixed.flatten(0, 1).index_select(0, grid.place).view(rows, count, -1)
    return mixed


def gelu(x: Product) -> Tensor:
    """GELU, as exact as the format of the numbers."""
    return F.gelu(x.numbers) if x.bias is None else pointwise.gelu(*x)


class Residual(NamedTuple):
    """The sum over the layers so far, and the same as their linear maps read it, which may be in bf16."""

    total: Tensor
    rounded: Tensor

    @classmethod
    def of(cls, x: Tensor) -> Residual:
        return cls(x, x)

    def plus(self, scale: Tensor, y: Product) -> Residual:
        """The sum and scale * y; the scale is one number."""
        if y.bias is None:
            return Residual.of(self.total + scale * y.numbers)
        return Residual(*pointwise.add(self.total, scale, *y))


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

    def forward(self, x: Residual, bias: Tensor | None = None, grid: Grid | None = None) -> Residual:
        """[R, n, width] -> [R, n, width]

        Tokens attend to all of their row, or with `grid` to those in their line of it. `bias` expands to the scores,
        [R, heads, n, n] or [lines, heads, size, size].
        """
        mixed = mix(product(self.qkv, x.rounded), self.heads, bias, grid)
        x = x.plus(self.scale, product(self.out, mixed))
        wide = gelu(product(self.widen, x.rounded))
        return x.plus(self.scale, product(self.narrow, wide))


class ReZeroLayers(nn.ModuleList):
    """Layers one after the other, [R, n, width] -> [R, n, width]; all tokens of a row attend to each other."""

    def __init__(self, layers: int, width: int, heads: int, feedforward: int):
        super().__init__([ReZeroLayer(width, heads, feedforward) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        x = Residual.of(x)
        for layer in self:
            x = layer(x)
        return x.total


def in_parts(network: Callable[[Any, Any], Tensor], context: Any, state: Any, scores: int, numbers: int) -> Tensor:
    """network(context, state), both NamedTuples of [R, ...]; without gradients in equal parts of what fits at once.

    `scores` and `numbers` are those of a row: of attention in each layer, and of its tokens together. The batch is
    halved until it fits, so that of whatever size it is, the parts have few sizes.
    """
    size, limit = (numbers, NUMBERS_AT_ONCE) if compiler.applies(state[0].device) else (scores, SCORES_AT_ONCE)
    rows = part = state[0].shape[0]
    while part > 1 and part * size > limit and not torch.is_grad_enabled():
        part = -(-part // 2)
    if part == rows:
        return network(context, state)

    def piece(tensors: Any, first: int) -> Any:
        return type(tensors)(*(field[first : first + part] for field in tensors))

    return torch.cat([network(piece(context, first), piece(state, first)) for first in range(0, rows, part)])
