"""What a transformer layer computes beside attention, on the tiles of AMX, without gradients.

torch's matrix products reach a third of what the tiles can do, and between them the numbers of all tokens go through
memory. Here 32 tokens at a time stay in the cache on their way through all of it (measured; see docs/log.md).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import register_flop_formula

from models.kernels import compiler

MULTIPLE = 16  # of it are the numbers of inputs and outputs


def fits(*weights: Tensor) -> bool:
    """Whether products with these weights [..., outputs, inputs] can be on tiles here."""
    for weight in weights:
        inputs = weight.shape[-1]
        if weight.dtype != torch.float32 or inputs % MULTIPLE or weight.numel() // inputs % MULTIPLE:
            return False
    return compiler.on_tiles("layer") is not None


def applies(device: torch.device, *weights: Tensor) -> bool:
    """Whether they are: no gradient is asked for."""
    return not torch.is_grad_enabled() and compiler.in_one_pass(device) and fits(*weights)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As torch's, in bf16: x [..., inputs], weight [outputs, inputs], bias [outputs]."""
    bias = None if bias is None else bias.float().contiguous()
    return torch.ops.gumbeldore.linear(x.bfloat16().contiguous(), weight.contiguous(), bias)


def rest(mixed: Tensor, x: Tensor, scale: Tensor, *maps: nn.Linear) -> tuple[Tensor, Tensor]:
    """What a layer makes of x and what attention mixed, both [..., width]: x + scale * out(mixed), and with it
    x + scale * narrow(GELU(widen(x))), in float32 and the same in bf16; the maps are out, widen and narrow."""
    parameters = (each for linear in maps for each in (linear.weight.contiguous(), linear.bias.float().contiguous()))
    return torch.ops.gumbeldore.rest(mixed.bfloat16().contiguous(), x.float().contiguous(), scale.float(), *parameters)


class Map(ctypes.Structure):
    """As in layer.cpp."""

    _fields_ = [("outputs", ctypes.c_int64), ("inputs", ctypes.c_int64)]
    _fields_ += [("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p)]

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None) -> Map:
        return cls(*weight.shape, weight.data_ptr(), None if bias is None else bias.data_ptr())


class Size(ctypes.Structure):
    """As in layer.cpp."""

    _fields_ = [("rows", ctypes.c_int64), ("threads", ctypes.c_int64)]


def call(function: str, maps: list[Map], *tensors: Tensor) -> None:
    """A function of layer.cpp; the first tensor is [..., inputs of the first map]."""
    size = Size(tensors[0].numel() // maps[0].inputs, torch.get_num_threads())
    compiler.call(compiler.on_tiles("layer"), function, size, *maps, *tensors)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result = x.new_empty(*x.shape[:-1], len(weight))
    call("linear", [Map.of(weight, bias)], x, result)
    return result


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
) -> tuple[Tensor, Tensor]:
    total, rounded = torch.empty_like(x), torch.empty_like(mixed)
    maps = [Map.of(out, out_bias), Map.of(widen, widen_bias), Map.of(narrow, narrow_bias)]
    call("rest", maps, mixed, x, scale, total, rounded)
    return total, rounded


compiler.register(_linear, _rest)


@register_flop_formula(torch.ops.gumbeldore.linear)
def flops(x: list[int], weight: list[int], *_: Any, **__: Any) -> int:
    return 2 * torch.Size(x).numel() * weight[0]


@register_flop_formula(torch.ops.gumbeldore.rest)
def flops_of_rest(mixed: list[int], x: list[int], scale: list[int], *parameters: list[int], **_: Any) -> int:
    numbers = sum(torch.Size(weight).numel() for weight in parameters[::2])
    return 2 * torch.Size(mixed).numel() // mixed[-1] * numbers
