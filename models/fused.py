"""Attention in one piece on CPUs, forwards and backwards, compiled from fused.cpp at its first use.

In separate torch operations, scores, softmax and the copies that put heads in order go through memory again and again,
which costs more than the matrix products themselves. In one piece, as on GPUs [Dao et al. 2022], attention takes a
third of the time forwards (measured; see docs/log.md), and scores and softmax are in float32 where those round to bf16.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from gumbeldore.files import cache_folder

SOURCE = Path(__file__).with_suffix(".cpp")
OPTIONS = ["-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
NUMBERS = {torch.float32: "float", torch.bfloat16: "uint16_t"}


def applies(device: torch.device) -> bool:
    """Whether attention is fused here: on a CPU with a C++ compiler, unless torch compiles the network itself."""
    return device.type == "cpu" and not torch.compiler.is_compiling() and compiles()


def fits(qkv: Tensor, bias: Tensor | None) -> bool:
    """Whether `attention` knows the format of the numbers, and all queries have the same bias."""
    return qkv.dtype in NUMBERS and (bias is None or bias.dim() == 1 or bias.shape[-2] == 1)


@functools.cache
def compiles() -> bool:
    """Whether fused.cpp can be compiled; a warning says why not."""
    try:
        library(torch.float32, 16)
    except RuntimeError as error:
        warnings.warn(f"{error}; attention takes two to four times as long without it", stacklevel=2)
        return False
    return True


@functools.cache
def library(number: torch.dtype, head_size: int) -> ctypes.CDLL:
    """The compiled fused.cpp, kept in the user's cache folder; RuntimeError if there cannot be one."""
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        raise RuntimeError(f"no C++ compiler {os.environ.get('CXX', 'c++')!r} to compile {SOURCE.name} with")
    command = [compiler, *OPTIONS, f"-DNUMBER={NUMBERS[number]}", f"-DSIZE={head_size}"]
    version = hashlib.sha256(f"{command} {processor()}".encode() + SOURCE.read_bytes()).hexdigest()[:16]
    path = cache_folder("kernels") / f"attention-{version}.so"
    with contextlib.suppress(OSError):  # not there, or damaged
        return ctypes.CDLL(str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=path.parent)
    except OSError:  # a folder that cannot be written: it is compiled at every start
        scratch = tempfile.TemporaryDirectory()
    with scratch as folder:
        target = Path(folder) / path.name
        result = subprocess.run([*command, "-o", target, SOURCE], capture_output=True, text=True)
        if result.returncode:
            said = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.split("\n")
            reason = said[0].strip() or f"exit status {result.returncode}"
            raise RuntimeError(f"{compiler} cannot compile {SOURCE.name} ({reason})")
        try:
            loaded = ctypes.CDLL(str(target))
        except OSError as error:
            raise RuntimeError(f"the compiled {SOURCE.name} cannot be loaded ({error})") from None
        with contextlib.suppress(OSError):
            os.replace(target, path)
        return loaded


def processor() -> str:
    """What -march=native depends on: another machine that shares the cache folder compiles its own."""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            return next((line for line in file if line.startswith(("flags", "Features"))), platform.machine())
    return platform.machine() + platform.processor()


def attention(qkv: Tensor, heads: int, bias: Tensor | None, token: Tensor) -> Tensor:
    """Softmax attention of tokens within their lines.

    Arguments:
        qkv: [T, 3 * width], queries, keys and values of all tokens, head by head; float32 or bf16
        heads: their number
        bias: added to the scores of a key; expands to [lines, heads, 1, size]; has no gradient
        token: [lines, size] int64, which of the T tokens is where, each of them once; -1: none

    Returns [T, width].
    """
    if bias is not None:
        bias = bias.float().expand(len(token), heads, 1, token.shape[1])
    return Attention.apply(qkv.contiguous(), heads, bias, token.contiguous())


class Attention(torch.autograd.Function):
    """`attention` with a gradient for queries, keys and values."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, heads: int, bias: Tensor | None, token: Tensor) -> Tensor:
        out, sums = torch.ops.gumbeldore.attend(qkv, heads, bias, token)
        ctx.heads = heads
        ctx.save_for_backward(qkv, bias, token, out, sums)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        qkv, bias, token, out, sums = ctx.saved_tensors
        back = torch.ops.gumbeldore.attend_back
        return back(gradient.contiguous(), qkv, ctx.heads, bias, token, out, sums), None, None, None


class Lines(ctypes.Structure):
    """As in fused.cpp."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("tokens", "bias")] + [
        (name, ctypes.c_int64) for name in ("of_line", "of_head", "of_place", "lines", "size", "heads", "threads")
    ]


def call(name: str, heads: int, bias: Tensor | None, token: Tensor, qkv: Tensor, *others: Tensor) -> None:
    """A function of fused.cpp."""
    function = getattr(library(qkv.dtype, qkv.shape[1] // 3 // heads), name)
    address, strides = (None, (0, 0, 0, 0)) if bias is None else (bias.data_ptr(), bias.stride())
    lines = Lines(token.data_ptr(), address, *strides[:2], strides[3], *token.shape, heads, torch.get_num_threads())
    function(ctypes.byref(lines), *(ctypes.c_void_p(tensor.data_ptr()) for tensor in (qkv, *others)))


def attend(qkv: Tensor, heads: int, bias: Tensor | None, token: Tensor) -> tuple[Tensor, Tensor]:
    """The result [T, width], and what its gradient needs of each query [T, heads, 2]."""
    out = qkv.new_empty(qkv.shape[0], qkv.shape[1] // 3)
    sums = torch.empty(qkv.shape[0], heads, 2)
    call("forth", heads, bias, token, qkv, out, sums)
    return out, sums


def attend_back(
    gradient: Tensor, qkv: Tensor, heads: int, bias: Tensor | None, token: Tensor, out: Tensor, sums: Tensor
) -> Tensor:
    """The gradient of queries, keys and values [T, 3 * width]."""
    result = torch.empty_like(qkv)
    call("back", heads, bias, token, qkv, out, sums, gradient, result)
    return result


# As operators of torch, so that its profiler and its counter of operations see them.
OPERATORS = torch.library.Library("gumbeldore", "DEF")
for function in (attend, attend_back):
    OPERATORS.define(function.__name__ + torch.library.infer_schema(function, mutates_args=()))
    OPERATORS.impl(function.__name__, function, "CPU")


@register_flop_formula(torch.ops.gumbeldore.attend)
def flops(qkv: list[int], heads: int, bias: list[int] | None, token: list[int], **_: Any) -> int:
    """Of the scores and of mixing the values, as if every place had a token."""
    return 4 * token[0] * token[1] ** 2 * qkv[1] // 3


@register_flop_formula(torch.ops.gumbeldore.attend_back)
def flops_back(
    gradient: list[int], qkv: list[int], heads: int, bias: list[int] | None, token: list[int], *_: Any, **__: Any
) -> int:
    """Twice as many as forwards, as torch counts matrix products; scores that are computed again do not count."""
    return 2 * flops(qkv, heads, bias, token)
