"""What a transformer layer computes beside attention, in bf16, forwards and backwards.

Between torch's matrix products the numbers of all tokens go through memory, and on the tiles of AMX they reach a third
of what those can do. Here 32 tokens at a time stay in the cache on their way through all of it: on tiles, or where
there are none, on AVX-512's vectors of pairs of bf16 (measured; see docs/log.md).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.flop_counter import register_flop_formula

from models.kernels import compiler

MULTIPLE = 16  # of it are the numbers of inputs and outputs


def fits(*weights: Tensor) -> bool:
    """Whether a layer with these weights [..., outputs, inputs] can be in one pass here."""
    for weight in weights:
        inputs = weight.shape[-1]
        if weight.dtype != torch.float32 or inputs % MULTIPLE or weight.numel() // inputs % MULTIPLE:
            return False
    return compiler.multiplying("layer") is not None


def applies(device: torch.device, *weights: Tensor) -> bool:
    """Whether it is."""
    return compiler.in_one_pass(device) and fits(*weights)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As torch's, in bf16: x [..., inputs], weight [outputs, inputs], bias [outputs]."""
    given = x.bfloat16().contiguous(), weight.contiguous(), None if bias is None else bias.float().contiguous()
    return Linear.apply(*given) if torch.is_grad_enabled() else torch.ops.gumbeldore.linear(*given)


class Linear(torch.autograd.Function):
    """`linear` with gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.ops.gumbeldore.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor) -> tuple[Tensor | None, ...]:
        of_x, of_weight, of_bias = torch.ops.gumbeldore.linear_back(*ctx.saved_tensors, of_y.contiguous())
        return of_x, of_weight, of_bias if ctx.needs_input_grad[2] else None


def rest(mixed: Tensor, x: Tensor, scale: Tensor, *maps: nn.Linear) -> tuple[Tensor, Tensor]:
    """What a layer makes of x and what attention mixed, both [..., width]: x + scale * out(mixed), and with it
    x + scale * narrow(GELU(widen(x))), in float32 and the same in bf16; the maps are out, widen and narrow."""
    parameters = (each for linear in maps for each in (linear.weight.contiguous(), linear.bias.float().contiguous()))
    given = mixed.bfloat16().contiguous(), x.float().contiguous(), scale.float(), *parameters
    return Rest.apply(*given) if torch.is_grad_enabled() else torch.ops.gumbeldore.rest(*given, False)[:2]


class Rest(torch.autograd.Function):
    """`rest` with gradients."""

    @staticmethod
    def forward(ctx: Any, mixed: Tensor, x: Tensor, scale: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        total, rounded, *kept = torch.ops.gumbeldore.rest(mixed, x, scale, *parameters, True)
        ctx.save_for_backward(mixed, *kept, scale, *parameters)
        return total, rounded

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_total: Tensor, of_rounded: Tensor) -> tuple[Tensor, ...]:
        *kept, scale, out, out_bias, widen, _, narrow, narrow_bias = ctx.saved_tensors
        given = of_total.contiguous(), of_rounded.contiguous(), *kept, scale, out, widen, narrow
        of_mixed, of_x, *of_parameters = torch.ops.gumbeldore.rest_back(*given)
        # A gradient g of the product of scale and weight is g * weight for the scale, g * scale for the weight.
        of_products = *of_parameters[:2], *of_parameters[4:]
        pairs = zip(of_products, (out, out_bias, narrow, narrow_bias), strict=True)
        of_scale = sum(torch.dot(gradient.flatten(), each.flatten()) for gradient, each in pairs)
        torch._foreach_mul_(of_products, scale)
        return of_mixed, of_x, of_scale, *of_parameters


class Map(ctypes.Structure):
    """As in maps.h."""

    _fields_ = [("outputs", ctypes.c_int64), ("inputs", ctypes.c_int64)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("weight", "bias", "of_weight", "of_bias")]

    @classmethod
    def of(cls, weight: Tensor, *others: Tensor | None) -> Map:
        """Of a weight, its bias, and where the gradients of the two are written."""
        addresses = (None if tensor is None else tensor.data_ptr() for tensor in (weight, *others))
        return cls(*weight.shape, *addresses)


class Size(ctypes.Structure):
    """As in layer.cpp."""

    _fields_ = [("rows", ctypes.c_int64), ("threads", ctypes.c_int64)]


def call(function: str, maps: list[Map], *tensors: Tensor) -> None:
    """A function of layer.cpp; the first tensor is [..., inputs of the first map]."""
    size = Size(tensors[0].numel() // maps[0].inputs, torch.get_num_threads())
    compiler.call(compiler.multiplying("layer"), function, size, *maps, *tensors)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result = x.new_empty(*x.shape[:-1], len(weight))
    call("linear", [Map.of(weight, bias)], x, result)
    return result


def _linear_back(x: Tensor, weight: Tensor, of_y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias."""
    of_x, of_weight, of_bias = torch.empty_like(x), torch.empty_like(weight), weight.new_empty(len(weight))
    call("linear_back", [Map.of(weight, None, of_weight, of_bias)], x, of_y, of_x)
    return of_x, of_weight, of_bias


def _rest(
    mixed: Tensor,
    x: Tensor,
    scale: Tensor,
    out: Tensor,
    out_bias: Tensor,
    widen: Tensor,
    widen_bias: Tensor,
    narrow: Tensor,
    narrow_bias: Tensor,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `rest`, and to keep for the gradient: the sum in the middle and what GELU is applied to, in bf16."""
    total, rounded = torch.empty_like(x), torch.empty_like(mixed)
    middle, hidden = (mixed.new_empty(*mixed.shape[:-1], n if keep else 0) for n in (len(out), len(widen)))
    maps = [Map.of(out, out_bias), Map.of(widen, widen_bias), Map.of(narrow, narrow_bias)]
    call("rest", maps, mixed, x, scale, total, rounded, middle, hidden)
    return total, rounded, middle, hidden


def _rest_back(
    of_total: Tensor,
    of_rounded: Tensor,
    mixed: Tensor,
    middle: Tensor,
    hidden: Tensor,
    scale: Tensor,
    out: Tensor,
    widen: Tensor,
    narrow: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of mixed, x and the parameters; of those of out and narrow, of their products with the scale."""
    of_mixed, of_x, weights = torch.empty_like(mixed), torch.empty_like(of_total), (out, widen, narrow)
    of_maps = [(torch.empty_like(weight), weight.new_empty(len(weight))) for weight in weights]
    maps = [Map.of(weight, None, *gradients) for weight, gradients in zip(weights, of_maps, strict=True)]
    call("rest_back", maps, mixed, middle, hidden, scale, of_total, of_rounded, of_mixed, of_x)
    return of_mixed, of_x, *of_maps[0], *of_maps[1], *of_maps[2]


compiler.register(_linear, _linear_back, _rest, _rest_back)


@register_flop_formula(torch.ops.gumbeldore.linear)
def flops(x: list[int], weight: list[int], *_: Any, **__: Any) -> int:
    return 2 * torch.Size(x).numel() * weight[0]


@register_flop_formula(torch.ops.gumbeldore.linear_back)
def flops_back(*shapes: Any, **_: Any) -> int:
    return 2 * flops(*shapes)


@register_flop_formula(torch.ops.gumbeldore.rest)
def flops_of_rest(mixed: list[int], x: list[int], scale: list[int], *parameters: Any, **_: Any) -> int:
    numbers = sum(torch.Size(weight).numel() for weight in parameters[:6:2])
    return 2 * torch.Size(mixed).numel() // mixed[-1] * numbers


@register_flop_formula(torch.ops.gumbeldore.rest_back)
def flops_of_rest_back(of_total: list[int], *shapes: Any, **_: Any) -> int:
    numbers = sum(torch.Size(weight).numel() for weight in shapes[-3:])
    return 4 * torch.Size(of_total).numel() // of_total[-1] * numbers
