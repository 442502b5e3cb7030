"""Matrix products, and what a transformer does with them between one and the next."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.kernels import compiler, pointwise


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
