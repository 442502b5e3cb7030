"""Transformer layers without any problem's words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.attention import Grid, mix
from models.kernels import layer as fused
from models.products import Linears, Product, Residual, gelu, product


def check_sizes(**sizes: int) -> None:
    """Raises ValueError naming the first that is not positive."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


class ReZeroLayer(nn.Module):
    """x + a*attention(x), then x + a*feedforward(x), with one learnt a that starts at 0; no normalisation."""

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

    def forward(self, x: Residual, bias: Tensor | None = None, grid: Grid | None = None) -> Residual:
        """[R, n, width] -> [R, n, width]

        Tokens attend to all of their row, or with `grid` to those in their line of it. `bias` expands to the scores,
        [R, heads, n, n] or [lines, heads, size, size].
        """
        if fused.applies(x.total.device, *self.weights()):
            qkv = fused.linear(x.rounded, self.qkv.weight.flatten(0, 1), self.qkv.bias)
            mixed = mix(Product(qkv, None), self.heads, bias, grid)
            return Residual(*fused.rest(mixed, x.total, self.scale, self.out, self.widen, self.narrow))
        mixed = mix(product(self.qkv, x.rounded), self.heads, bias, grid)
        x = x.plus(self.scale, product(self.out, mixed))
        wide = gelu(product(self.widen, x.rounded))
        return x.plus(self.scale, product(self.narrow, wide))

    def weights(self) -> list[Tensor]:
        return [each.weight for each in (self.qkv, self.out, self.widen, self.narrow)]


class ReZeroLayers(nn.ModuleList):
    """Layers one after the other, [R, n, width] -> [R, n, width]; all tokens of a row attend to each other."""

    def __init__(self, layers: int, width: int, heads: int, feedforward: int):
        super().__init__([ReZeroLayer(width, heads, feedforward) for _ in range(layers)])

    def forward(self, x: Tensor) -> Tensor:
        return self.halves(x)[-1]

    def halves(self, x: Tensor) -> list[Tensor]:
        """The tokens after the first half of the layers, and after all."""
        x = Residual.of(x)
        for number, layer in enumerate(self):
            if number == len(self) // 2:
                halfway = x.total
            x = layer(x)
        return [halfway, x.total]
