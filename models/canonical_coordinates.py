"""Coordinates that do not depend on how an instance lies in the plane."""

from __future__ import annotations

import torch
from torch import Tensor


def to_canonical(points: Tensor) -> Tensor:
    """Sub-problems [R, n+2, 2] with the first point at 0, the last on the positive x axis, most of y above it.

    Scaled so that the node farthest from the first has distance 1. Where first and last coincide, the rotation
    stays as it is.
    """
    points = points - points[:, :1]
    distance = points[:, -1].norm(dim=-1, keepdim=True)  # [R, 1] to the last
    cos = torch.where(distance > 0, points[:, -1, :1] / distance, 1.0)
    sin = torch.where(distance > 0, points[:, -1, 1:] / distance, 0.0)
    x = points[..., 0] * cos + points[..., 1] * sin
    y = points[..., 1] * cos - points[..., 0] * sin
    y = torch.where(y.sum(dim=1, keepdim=True) < 0, -y, y)
    points = torch.stack([x, y], dim=-1)
    reach = points.norm(dim=-1).amax(dim=1)[:, None, None]
    return points / reach.where(reach > 0, 1.0)
