"""What a policy sees of a large instance: the nodes in view, as seen from the origin, and a map of what remains.

A view looks alike wherever it is in an instance, and in instances of all sizes: it is moved, turned, mirrored and
scaled so that the origin lies at 0, the end of the way in the direction of the positive x axis, most of y above it, and
the farthest node in view at distance 1. LEHD's authors rescale views, too [Luo et al. 2025].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

FEATURES = 3  # of a point
REACH = 2.0  # points farther away are drawn at this distance


class View(NamedTuple):
    """Where a view is in the plane."""

    origin: Tensor  # [R, 1, 2]
    cos: Tensor  # [R, 1] of the end's direction
    sin: Tensor  # [R, 1], negative to mirror
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


def features(placed: Tensor) -> Tensor:
    """Features [R, m, FEATURES] of points [R, m, 2] as a view shows them.

    The place, drawn within reach in its direction, and the logarithm of the distance.
    """
    distance = placed.norm(dim=-1, keepdim=True)
    return torch.cat([placed * (REACH / distance.clamp(min=REACH)), distance.log1p()], dim=-1)


def grid(coords: Tensor, points: Tensor, cells: int) -> Tensor:
    """The cell [R, n] in 0..cells^2-1 of points [R, n, 2], on a grid over all nodes [R, N, 2] of the instance."""
    low, high = coords.amin(dim=1, keepdim=True), coords.amax(dim=1, keepdim=True)
    place = (points - low) / (high - low).clamp(min=1e-9) * cells
    column, row = place.long().clamp(0, cells - 1).unbind(dim=-1)
    return column * cells + row


def rings(placed: Tensor, count: int, sectors: int) -> Tensor:
    """The cell [R, n] of points [R, n, 2] as a view shows them, in rings around it, each twice as wide as the last.

    Cell count * sectors is the view itself. The first sector lies around the direction of the end.
    """
    distance = placed.norm(dim=-1)
    ring = distance.clamp(min=1.0).log2().long().clamp(max=count - 1)
    angle = torch.atan2(placed[..., 1], placed[..., 0]) / (2 * math.pi) * sectors
    sector = (angle + 0.5).floor().long() % sectors
    return torch.where(distance <= 1.0, count * sectors, ring * sectors + sector)


def map_of(placed: Tensor, weights: Tensor, cell: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """What remains, summed up: the centre of gravity [R, cells, 2] of each cell, and its share [R, cells, 1].

    Arguments:
        placed: [R, n, 2] the remaining nodes, as a view shows them
        weights: [R, n]
        cell: [R, n] of each; those in cell number `cells` count for nothing

    A share is the cell's weight in units of what a cell has on average. Of empty cells all numbers are 0.
    """
    rows = len(placed)
    sums = placed.new_zeros(rows, cells + 1, 3)
    each = torch.cat([placed * weights[..., None], weights[..., None]], dim=-1)
    sums = sums.scatter_add_(1, cell[..., None].expand(-1, -1, 3), each)[:, :cells]
    weight = sums[..., 2:]
    share = weight / weights.sum(dim=1)[:, None, None].clamp(min=1e-9) * cells
    return sums[..., :2] / weight.where(weight > 0, 1.0), share
