"""The edges of tours and routes, as numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def undirected(a: Tensor, b: Tensor, nodes: int) -> Tensor:
    """A number for each pair of the nodes a and b, the same for (a, b) and (b, a); -1 where they are one node.

    Arguments:
        nodes: how many there are
    """
    return torch.where(a == b, -1, torch.minimum(a, b) * nodes + torch.maximum(a, b))
