"""Networks whose every layer counts."""

from __future__ import annotations

from torch import nn


def awake(network: nn.Module) -> nn.Module:
    """The network, with ReZero layers that no longer do nothing, as they do at first."""
    for name, parameter in network.named_parameters():
        if name.endswith("scale"):
            nn.init.constant_(parameter, 0.5)
    return network
