"""Compiles the C++ files of this folder for this machine and keeps the result in the user's cache folder."""

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumbeldore.files import cache_folder

FOLDER = Path(__file__).parent
OPTIONS = ["-std=c++17", "-O3", "-fno-math-errno", "-march=native", "-fopenmp", "-shared", "-fPIC"]
OPERATORS = torch.library.Library("gumbeldore", "DEF")
NUMBERS = {torch.float32: "float", torch.bfloat16: "uint16_t"}


def applies(device: torch.device) -> bool:
    """Whether kernels are used there: on a CPU with a C++ compiler, unless torch compiles the network itself."""
    return device.type == "cpu" and not torch.compiler.is_compiling() and compiles()


def in_one_pass(device: torch.device) -> bool:
    """Whether what is between matrix products is in one pass there: under autocast to bf16, where `applies`."""
    return in_bf16() and applies(device)


def in_bf16() -> bool:
    """Whether autocast has matrix products on CPUs in bf16."""
    return torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16


@functools.cache
def compiles() -> bool:
    """Whether there is a compiler that works; a warning says why not."""
    try:
        library("pointwise", torch.bfloat16)
    except RuntimeError as error:
        slow = "networks take about twice as long without it, and those with model.savings many times as long"
        warnings.warn(f"{error}; {slow}", stacklevel=2)
        return False
    return True


@functools.cache
def library(name: str, number: torch.dtype, *macros: str) -> ctypes.CDLL:
    """The compiled `name`.cpp for a format of numbers; RuntimeError if there cannot be one."""
    source = FOLDER / f"{name}.cpp"
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        raise RuntimeError(f"no C++ compiler {os.environ.get('CXX', 'c++')!r} to compile {source.name} with")
    command = [compiler, *OPTIONS, *(f"-D{macro}" for macro in (f"NUMBER={NUMBERS[number]}", *macros))]
    text = b"".join(path.read_bytes() for path in [source, *sorted(FOLDER.glob("*.h"))])
    version = hashlib.sha256(f"{command} {processor()}".encode() + text).hexdigest()[:16]
    path = cache_folder("kernels") / f"{name}-{version}.so"
    with contextlib.suppress(OSError):  # not there, or damaged
        return ctypes.CDLL(str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=path.parent)
    except OSError:  # a folder that cannot be written: it is compiled at every start
        scratch = tempfile.TemporaryDirectory()
    with scratch as folder:
        target = Path(folder) / path.name
        result = subprocess.run([*command, "-o", target, source], capture_output=True, text=True)
        if result.returncode:
            said = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.split("\n")
            reason = said[0].strip() or f"exit status {result.returncode}"
            raise RuntimeError(f"{compiler} cannot compile {source.name} ({reason})")
        try:
            loaded = ctypes.CDLL(str(target))
        except OSError as error:
            raise RuntimeError(f"the compiled {source.name} cannot be loaded ({error})") from None
        with contextlib.suppress(OSError):
            os.replace(target, path)
        return loaded


def multiplying(name: str, *macros: str) -> ctypes.CDLL | None:
    """The compiled `name`.cpp with the fastest products of bf16 that there are here; None: there are none."""
    return on_tiles(name, *macros) or on_pairs(name, *macros)


@functools.cache
def on_tiles(name: str, *macros: str) -> ctypes.CDLL | None:
    """As `multiplying`, on the tiles of AMX (amx.h), where machine, compiler and system have them."""
    if "amx_bf16" in processor():
        with contextlib.suppress(RuntimeError):
            tiles = library(name, torch.bfloat16, *macros, "TILES")
            tiles.ready.restype = ctypes.c_bool
            if tiles.ready():
                return tiles
    return None


@functools.cache
def on_pairs(name: str, *macros: str) -> ctypes.CDLL | None:
    """As `multiplying`, on vectors of pairs of AVX-512 (pairs.h), where machine and compiler have them."""
    if "avx512_bf16" in processor():
        with contextlib.suppress(RuntimeError):
            return library(name, torch.bfloat16, *macros, "PAIRS")
    return None


def call(kernels: ctypes.CDLL, function: str, *arguments: ctypes.Structure | Tensor) -> None:
    """A C++ function of pointers to these structures and to the numbers of these tensors."""
    pointers = (ctypes.c_void_p(x.data_ptr()) if isinstance(x, Tensor) else ctypes.byref(x) for x in arguments)
    getattr(kernels, function)(*pointers)


def register(*functions: Callable[..., Any]) -> None:
    """As operators of torch, gumbeldore::<name>, so that its profiler and its counter of operations see them."""
    for function in functions:
        name = function.__name__.lstrip("_")
        OPERATORS.define(name + torch.library.infer_schema(function, mutates_args=()))
        OPERATORS.impl(name, function, "CPU")


@functools.cache
def processor() -> str:
    """Which processor this is: others that share the cache folder compile for themselves, and measure."""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            lines = file.read().partition("\n\n")[0].split("\n")  # of the first core
        known = ("flags", "Features", "model name", "cache size", "CPU implementer", "CPU variant", "CPU part")
        return "\n".join(line for line in lines if line.startswith(known)) or platform.machine()
    return platform.machine() + platform.processor()
