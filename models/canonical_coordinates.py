"""Coordinates that stay the same when an instance is moved, rotated, mirrored or scaled in the plane."""

from __future__ import annotations

import torch
from torch import Tensor


def to_canonical(points: Tensor) -> Tensor:
    """Points [R, n+2, 2] with the first point at 0, the last on the positive x axis, most of y above it.

    The scale gives the point farthest from the first one distance 1. Where the first and the last point coincide, the
    rotation stays as it is.
    """
    points = points - points[:, :1]
    distance = points[:, -1].norm(dim=-1, keepdim=True)  # [R, 1] to the last
    cos = torch.where(distance > 0, points[:, -1, :1] / distance, 1.0)
    sin = torch.where(distance > 0, points[:, -1, 1:] / distance, 0.0)
    x = points[..., 0] * cos + points[..., 1] * sin
    y = points[..., 1] * cos - points[..., 0] * sin
    y = torch.where(y.sum(dim=1, keepdim=True) < 0, -y, y)
    points = torch.stack([x, y], dim=-1)
    farthest = points.norm(dim=-1).amax(dim=1)[:, None, None]
    return points / farthest.where(farthest > 0, 1.0)


CANONICAL_FEATURES = 11  # of each point


def canonical_features(points: Tensor) -> list[Tensor]:
    """11 features of points [R, n+2, 2] from two canonical views: from the first point, and from the last one.

    Of each view the canonical coordinates and the distances from the first and from the last point; then the direction
    from the last point, and the distance between the first and the last point.
    """
    from_first, from_last = to_canonical(points), to_canonical(points.flip(1)).flip(1)
    a_first, a_last = _distances_to_ends(from_first)
    b_first, b_last = _distances_to_ends(from_last)
    direction = from_last / b_last.where(b_last > 0, 1.0)
    return [from_first, a_first, a_last, from_last, b_first, b_last, direction, a_last[:, :1].expand_as(b_last)]


def _distances_to_ends(view: Tensor) -> tuple[Tensor, Tensor]:
    """The distances [R, n+2, 1] of points [R, n+2, 2] from the first and from the last one."""
    return (view - view[:, :1]).norm(dim=-1, keepdim=True), (view - view[:, -1:]).norm(dim=-1, keepdim=True)
