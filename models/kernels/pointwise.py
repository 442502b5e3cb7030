"""GELU and residual sums in bf16, each in one pass over memory with the bias before it, forwards and backwards.

As separate torch operations, a residual sum reads or writes its numbers thirteen times: the bias before the product,
the product, times the scale, the sum in float32, its rounding for the next product. And torch's GELU computes an error
function more exactly than bf16 can hold.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.kernels import compiler


def gelu(x: Tensor, bias: Tensor) -> Tensor:
    """GELU of x + bias [Hendrycks & Gimpel 2016] in bf16, as exact as that; x [..., width], bias [width]."""
    return Gelu.apply(x.bfloat16().contiguous(), bias.float().contiguous())


class Gelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, bias)
        return torch.ops.gumbeldore.gelu(x, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, change: Tensor) -> tuple[Tensor, Tensor]:
        of_x = torch.ops.gumbeldore.gelu_back(change.contiguous(), *ctx.saved_tensors)
        return of_x, over_rows(of_x)


def add(x: Tensor, scale: Tensor, y: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """x + scale * (y + bias) in float32, and the same in bf16; x, y [..., width], y in bf16, bias [width], scale []."""
    x, y = x.float().contiguous(), y.bfloat16().contiguous()
    return Add.apply(x, scale.float(), y, bias.float().contiguous())


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, y: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(scale, y, bias)
        return torch.ops.gumbeldore.add(x, scale, y, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_sum: Tensor, of_rounded: Tensor) -> tuple[Tensor, ...]:
        back = torch.ops.gumbeldore.add_back
        of_x, of_scale, of_y = back(of_sum.contiguous(), of_rounded.contiguous(), *ctx.saved_tensors)
        return of_x, of_scale, of_y, over_rows(of_y)


def over_rows(x: Tensor) -> Tensor:
    """Sums of columns in float32."""
    return x.flatten(0, -2).sum(dim=0, dtype=torch.float32)


class Size(ctypes.Structure):
    """As in pointwise.cpp."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "width", "threads")]


def call(function: str, *tensors: Tensor) -> None:
    """A function of pointwise.cpp; the first tensor is [..., width]."""
    width = tensors[0].shape[-1]
    size = Size(tensors[0].numel() // width, width, torch.get_num_threads())
    compiler.call(compiler.library("pointwise", torch.bfloat16), function, size, *tensors)


def _gelu(x: Tensor, bias: Tensor) -> Tensor:
    result = torch.empty_like(x)
    call("gelu", x, bias, result)
    return result


def _gelu_back(change: Tensor, x: Tensor, bias: Tensor) -> Tensor:
    result = torch.empty_like(x)
    call("gelu_back", change, x, bias, result)
    return result


def _add(x: Tensor, scale: Tensor, y: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    total, rounded = torch.empty_like(x), torch.empty_like(y)
    call("add", x, scale, y, bias, total, rounded)
    return total, rounded


def _add_back(
    of_sum: Tensor, of_rounded: Tensor, scale: Tensor, y: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    of_x, of_y, of_scale = torch.empty_like(of_sum), torch.empty_like(y), of_sum.new_empty(of_sum.shape[:-1])
    call("add_back", of_sum, of_rounded, scale, y, bias, of_x, of_y, of_scale)
    return of_x, of_scale.sum(), of_y


compiler.register(_gelu, _gelu_back, _add, _add_back)
