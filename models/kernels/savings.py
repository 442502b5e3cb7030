"""What the savings heuristic makes of the rest of a CVRP, without a Python loop over joins."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from models.kernels import compiler

LIMIT = 2**30  # of capacities


class Size(ctypes.Structure):
    """As in savings.cpp."""

    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "tokens", "shapes", "threads")]


def savings(points: Tensor, load: Tensor, capacity: Tensor, shapes: Tensor) -> tuple[Tensor, Tensor]:
    """As models.savings.savings_plan; the loads are at most one above the capacity."""
    given = points.float().contiguous(), load.contiguous(), capacity.contiguous(), shapes.float().contiguous()
    return torch.ops.gumbeldore.savings(*given)


def _savings(points: Tensor, load: Tensor, capacity: Tensor, shapes: Tensor) -> tuple[Tensor, Tensor]:
    links = load.new_empty(*points.shape)
    route = load.new_empty(points.shape[:2])
    size = Size(*load.shape, len(shapes), torch.get_num_threads())
    kernels = compiler.library("savings", torch.float32)
    compiler.call(kernels, "savings", size, points, load, capacity, shapes, links, route)
    return links, route


compiler.register(_savings)
