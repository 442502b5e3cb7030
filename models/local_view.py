"""What a policy sees of an instance in which the nodes near the origin alone are in view.

A view looks alike wherever it is in an instance, and in instances of all sizes: it is moved, turned, mirrored and
scaled so that the origin lies at 0, the end of the way in the direction of the positive x axis, most of y above it, and
the farthest node in view at distance 1. LEHD's authors rescale views, too [Luo et al. 2025].
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

VIEW_FEATURES = 3  # of a point
REACH = 2.0  # points farther away are drawn at this distance


class View(NamedTuple):
    """Where a view is in the plane."""

    origin: Tensor  # [R, 1, 2]
    cos: Tensor  # [R, 1] of the end's direction
    sin: Tensor  # [R, 1] of the end's direction
    side: Tensor  # [R, 1] -1 where the view is mirrored, else 1
    radius: Tensor  # [R, 1, 1] distance of the farthest node in view

    @classmethod
    def of(cls, points: Tensor) -> View:
        """The view of points [R, k+2, 2]: the origin, the nodes in view, the end."""
        origin = points[:, :1]
        away = points[:, 1:] - origin
        distance = away.norm(dim=-1)  # [R, k+1]
        to_end = distance[:, -1:]
        direction = away[:, -1] / to_end.where(to_end > 0, 1.0)
        cos, sin = direction[:, :1].where(to_end > 0, 1.0), direction[:, 1:]
        farthest = distance[:, :-1].amax(dim=1, keepdim=True) if distance.shape[1] > 1 else to_end
        radius = farthest.where(farthest > 0, to_end)
        upright = cls(origin, cos, sin, torch.ones_like(cos), radius.where(radius > 0, 1.0)[..., None])
        above = upright.place(points[:, 1:-1])[..., 1].sum(dim=1, keepdim=True)
        return upright._replace(side=torch.where(above < 0, -1.0, 1.0).to(cos))

    def place(self, points: Tensor) -> Tensor:
        """Points [R, m, 2] as the view shows them: in units of its radius."""
        x, y = ((points - self.origin) / self.radius).unbind(dim=-1)
        return torch.stack([x * self.cos + y * self.sin, (y * self.cos - x * self.sin) * self.side], dim=-1)


def view_features(placed: Tensor) -> Tensor:
    """Features [R, m, VIEW_FEATURES] of points [R, m, 2] as a view shows them.

    The place, drawn within reach in its direction, and the logarithm of the distance.
    """
    distance = placed.norm(dim=-1, keepdim=True)
    return torch.cat([placed * (REACH / distance.clamp(min=REACH)), distance.log1p()], dim=-1)
