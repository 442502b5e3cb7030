"""torch.compile for the layers of a network: one compiled layer for all of them, and for every length of sequence.

The whole network would compile for minutes at every start, its layers for one. On CPUs, training steps of the CVRP
become 1.2 times as fast, those of the JSSP hardly faster, and sampling slower (docs/decisions.md), so there
only training is compiled. On GPUs sampling is, too: the TSP becomes 1.4 times as fast, the JSSP slower
(docs/results.md).
"""

from __future__ import annotations

import os
import shutil
import sys

import torch
from torch import nn


def compile_layers(network: nn.Module) -> None:
    """Compile, at their first use, the `layers_of` the network; a copy of it is not compiled."""
    for layer in layers_of(network):
        layer.compile(dynamic=True)


def check_compiler(device: torch.device) -> None:
    """Raises ValueError where torch.compile would not find the C++ compiler that it needs for a CPU."""
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # where torch looks for it
    if device.type == "cpu" and shutil.which(compiler) is None:
        raise ValueError(f"compile=true needs a C++ compiler, and there is no {compiler} in PATH; CXX can name another")


def layers_of(network: nn.Module) -> list[nn.Module]:
    """The modules in the network's nn.ModuleLists. Raises ValueError if there are none."""
    layers = [layer for module in network.modules() if isinstance(module, nn.ModuleList) for layer in module]
    if not layers:
        raise ValueError(f"compile has no effect on {type(network).__name__}: it has no nn.ModuleList of layers")
    return layers
