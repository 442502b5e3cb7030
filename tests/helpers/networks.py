"""Networks whose every layer counts."""

from __future__ import annotations

import pytest
from torch import nn

WAYS = ("groups", "dense")  # of attention within jobs and within machines


def attend_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention in groups, or over all pairs of operations."""
    monkeypatch.setattr("models.shop_attention.MAX_DENSE_RATIO", {"groups": 0, "dense": 1e9}[way])


def awake(network: nn.Module) -> nn.Module:
    """The network, with ReZero layers that no longer do nothing, as they do at first."""
    for name, parameter in network.named_parameters():
        if name.endswith("scale"):
            nn.init.constant_(parameter, 0.5)
    return network
