"""Networks whose every layer counts."""

from __future__ import annotations

import ctypes
import functools
import zlib
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn

from models.kernels import compiler

WAYS = ("fused", "grid", "dense")  # of attention within jobs and within machines; networks without a grid know two


def attend_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention in one piece, or by torch's operations on the grid, or by them over all pairs."""
    if way == "fused" and not compiler.compiles():
        pytest.skip("no C++ compiler")
    monkeypatch.setattr(compiler, "applies", lambda device: way == "fused" and device == torch.device("cpu"))
    monkeypatch.setattr("models.job_shop.DENSE", {"grid": 0, "dense": 1e9}.get(way, 2))


PRODUCTS = ("tiles", "pairs")
TILES = Path(__file__).with_name("tiles.h")


@functools.cache
def emulated_tiles(name: str, *macros: str) -> ctypes.CDLL | None:
    """As `compiler.on_tiles`, on a machine without them, whose vectors have what else that takes."""
    if compiler.on_pairs(name, *macros) is None:
        return None
    options = [*compiler.OPTIONS, "-include", str(TILES), f"-DEMULATED={zlib.crc32(TILES.read_bytes())}"]
    with mock.patch.object(compiler, "OPTIONS", options):
        return compiler.library.__wrapped__(name, torch.bfloat16, *macros, "TILES")


def tiles(name: str, *macros: str) -> ctypes.CDLL | None:
    return compiler.on_tiles(name, *macros) or emulated_tiles(name, *macros)


def multiply_by(products: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 on tiles (AMX's, or emulated), on vectors of pairs, or ("numbers") one number at a time."""
    here = {"tiles": tiles, "pairs": compiler.on_pairs}.get(products)
    if here and (not compiler.compiles() or here("layer") is None):
        pytest.skip(f"no {products}")
    monkeypatch.setattr(compiler, "multiplying", here or (lambda *_: None))


def awake(network: nn.Module) -> nn.Module:
    """The network, with ReZero layers that no longer do nothing, as they do at first."""
    for name, parameter in network.named_parameters():
        if name.endswith("scale"):
            nn.init.constant_(parameter, 0.5)
    return network
