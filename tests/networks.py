"""Networks whose every layer counts."""

from __future__ import annotations

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


def multiply_by(products: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """bf16 on AMX tiles, or on vectors of pairs, where the machine has them, or ("numbers") one number at a time."""
    here = getattr(compiler, f"on_{products}") if products in PRODUCTS else None
    if here and (not compiler.compiles() or here("layer") is None):
        pytest.skip(f"no {products}")
    monkeypatch.setattr(compiler, "multiplying", here or (lambda *_: None))


def awake(network: nn.Module) -> nn.Module:
    """The network, with ReZero layers that no longer do nothing, as they do at first."""
    for name, parameter in network.named_parameters():
        if name.endswith("scale"):
            nn.init.constant_(parameter, 0.5)
    return network
