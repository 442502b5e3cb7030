"""Transformer layers without any problem's words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention import Grid, multi_head_attention


def check_sizes(**sizes: int) -> None:
    """Raises ValueError naming the first that is not positive."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


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
    """x + a * attention(x), then x + a * feedforward(x), with one learnt a that starts at 0; no normalisation."""

    def __init__(self, width: int, heads: int, feedforward: int):
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.heads = heads
        self.qkv = Linears(3, width, width)
        self.out = nn.Linear(width, width)
        self.widen = nn.Linear(width, feedforward)
        self.narrow = nn.Linear(feedforward, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, bias: Tensor | None = None, grid: Grid | None = None) -> Tensor:
        """[R, n, width] -> [R, n, width]

        Tokens attend to all tokens of their row, or with `grid` to those of their line. `bias` expands to the scores,
        [R, heads, n, n] or [lines, heads, size, size].
        """
        x = x + self.scale * self.attention(x, bias, grid)
        return x + self.scale * self.feedforward(x)

    def attention(self, x: Tensor, bias: Tensor | None, grid: Grid | None) -> Tensor:
        return self.out(multi_head_attention(self.qkv(x), self.heads, bias, grid))

    def feedforward(self, x: Tensor) -> Tensor:
        return self.narrow(F.gelu(self.widen(x)))


class ReZeroLayers(nn.ModuleList):
    """Layers one after the other, [R, n, width] -> [R, n, width]; all tokens of a row attend to each other."""

    def __init__(self, layers: int, width: int, heads: int, feedforward: int):
        super().__init__([ReZeroLayer(width, heads, feedforward) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        return self.halves(x)[-1]

    def halves(self, x: Tensor) -> list[Tensor]:
        """The tokens after the first half of the layers, and after all."""
        for number, layer in enumerate(self):
            if number == len(self) // 2:
                halfway = x
            x = layer(x)
        return [halfway, x]
