"""Attention in one piece, forwards and backwards.

In separate torch operations, scores, softmax and the copies that put heads in order go through memory again and again,
which costs more than the matrix products themselves. In one piece, as on GPUs [Dao et al. 2022], attention takes a
third of the time forwards (measured; see docs/log.md), and scores and softmax are in float32 where those round to bf16
(for products of bf16, shares are rounded before they mix the values).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.flop_counter import register_flop_formula

from models.kernels import compiler
from models.kernels.pointwise import over_rows

LONG = 24  # places of a line from which on products of bf16 are faster (measured; see docs/log.md)


def fits(qkv: Tensor, bias: Tensor | None) -> bool:
    """Whether `attention` knows the format of the numbers, and all queries have the same bias."""
    return qkv.dtype in compiler.NUMBERS and (bias is None or bias.dim() == 1 or bias.shape[-2] == 1)


def attention(qkv: Tensor, qkv_bias: Tensor | None, heads: int, bias: Tensor | None, token: Tensor) -> Tensor:
    """Softmax attention of tokens within their lines.

    Arguments:
        qkv: [T, 3 * width], queries, keys and values of all tokens, head by head; float32 or bf16
        qkv_bias: [3 * width], added to them
        heads: their number
        bias: added to the scores of a key; expands to [lines, heads, 1, size]; has no gradient
        token: [lines, size] int64, which of the T tokens is where, each of them once; -1: none

    Returns [T, width].
    """
    if qkv_bias is not None:
        qkv_bias = qkv_bias.float().contiguous()
    if bias is not None:
        bias = bias.float().expand(len(token), heads, 1, token.shape[1])
    given = qkv.contiguous(), qkv_bias, heads, bias, token.contiguous()
    return Attention.apply(*given) if torch.is_grad_enabled() else torch.ops.gumbeldore.attend(*given)[0]


class Attention(torch.autograd.Function):
    """`attention` with a gradient for queries, keys and values."""

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, qkv_bias: Tensor | None, heads: int, bias: Tensor | None, token: Tensor
    ) -> Tensor:
        out, sums = torch.ops.gumbeldore.attend(qkv, qkv_bias, heads, bias, token)
        ctx.heads = heads
        ctx.save_for_backward(qkv, qkv_bias, bias, token, out, sums)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        qkv, qkv_bias, bias, token, out, sums = ctx.saved_tensors
        back = torch.ops.gumbeldore.attend_back
        of_qkv = back(gradient.contiguous(), qkv, qkv_bias, ctx.heads, bias, token, out, sums)
        return of_qkv, None if qkv_bias is None else over_rows(of_qkv), None, None, None


class Lines(ctypes.Structure):
    """As in attention.cpp."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("tokens", "qkv_bias", "bias")] + [
        (name, ctypes.c_int64) for name in ("of_line", "of_head", "of_place", "lines", "size", "heads", "threads")
    ]


def kernel(number: torch.dtype, head_size: int, long: bool) -> ctypes.CDLL:
    """The compiled attention.cpp; for long lines of bf16 multiplying those."""
    size = f"SIZE={head_size}"
    multiplying = compiler.multiplying("attention", size) if long and number == torch.bfloat16 else None
    return multiplying or compiler.library("attention", number, size)


def call(
    name: str, heads: int, qkv_bias: Tensor | None, bias: Tensor | None, token: Tensor, qkv: Tensor, *others: Tensor
) -> None:
    """A function of attention.cpp."""
    kernels = kernel(qkv.dtype, qkv.shape[1] // 3 // heads, token.shape[1] >= LONG)
    addresses = (None if tensor is None else tensor.data_ptr() for tensor in (token, qkv_bias, bias))
    strides = (0, 0, 0, 0) if bias is None else bias.stride()
    lines = Lines(*addresses, *strides[:2], strides[3], *token.shape, heads, torch.get_num_threads())
    compiler.call(kernels, name, lines, qkv, *others)


def attend(
    qkv: Tensor, qkv_bias: Tensor | None, heads: int, bias: Tensor | None, token: Tensor
) -> tuple[Tensor, Tensor]:
    """The result [T, width], and what its gradient needs of each query [T, heads, 2]."""
    out = qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)
    sums = torch.empty(qkv.shape[0], heads, 2)
    call("forth", heads, qkv_bias, bias, token, qkv, out, sums)
    return out, sums


def attend_back(
    gradient: Tensor,
    qkv: Tensor,
    qkv_bias: Tensor | None,
    heads: int,
    bias: Tensor | None,
    token: Tensor,
    out: Tensor,
    sums: Tensor,
) -> Tensor:
    """The gradient of queries, keys and values [T, 3 * width]."""
    result = torch.empty_like(qkv)
    call("back", heads, qkv_bias, bias, token, qkv, out, sums, gradient, result)
    return result


compiler.register(attend, attend_back)


@register_flop_formula(torch.ops.gumbeldore.attend)
def flops(qkv: list[int], *others: Any, **_: Any) -> int:
    """Of the scores and of mixing the values, as if every place had a token."""
    lines, size = others[3]
    return 4 * lines * size**2 * qkv[1] // 3


@register_flop_formula(torch.ops.gumbeldore.attend_back)
def flops_back(gradient: list[int], *others: Any, **_: Any) -> int:
    """Twice as many as forwards, as torch counts matrix products; scores that are computed again do not count."""
    return 2 * flops(*others)
