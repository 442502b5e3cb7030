"""Moving points in the plane without changing what a solution is."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def move_square(coords: Tensor, draw: Tensor) -> Tensor:
    """Point sets [R, N, 2] swapped in x/y, mirrored, rotated about the centre and scaled down into the unit square.

    Arguments:
        draw: [R, 4] uniform numbers that decide on these [GD, D.2]
    """
    coords = torch.where(draw[:, 0, None, None] < 0.5, coords.flip(-1), coords)
    centred = coords - 0.5
    mirror = torch.where(draw[:, 1:3] < 0.5, -1.0, 1.0)[:, None].to(coords.dtype)  # [R, 1, 2]
    angle = draw[:, 3].to(coords.dtype) * (2 * torch.pi)
    cos, sin = angle.cos(), angle.sin()
    rotation = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)  # [R, 2, 2]
    centred = (centred * mirror) @ rotation
    outside = centred.abs().amax(dim=(1, 2), keepdim=True) * 2
    return centred / outside.clamp(min=1.0) + 0.5


SYMMETRIES = 8  # of the square
SMALL = 0.1  # extent of a point set in it


def symmetric(coords: Tensor, which: Tensor) -> Tensor:
    """Point sets [R, N, 2] in the unit square under its symmetries `which` [R], 0..7; 0 leaves them as they are."""
    mirror = torch.stack([which & 1, which & 2], dim=-1)[:, None] > 0  # [R, 1, 2]
    coords = torch.where(mirror, 1 - coords, coords)
    return torch.where((which & 4 > 0)[:, None, None], coords.flip(-1), coords)


def into_unit_square(coords: np.ndarray) -> np.ndarray:
    """Moves each point set [n, N, 2] that leaves the unit square into it, x and y by the same factor.

    Also one that fills but a small part of it, where float32 would have few digits left. Random instances stay as
    drawn: the network was trained on points that need not touch the border.
    """
    low, high = coords.min(axis=1, keepdims=True), coords.max(axis=1, keepdims=True)
    outside = ((low < 0) | (high > 1)).any(axis=2, keepdims=True)
    extent = (high - low).max(axis=2, keepdims=True)  # [n, 1, 1]
    extent[extent == 0] = 1.0  # all nodes in one place
    return np.where(outside | (extent < SMALL), (coords - low) / extent, coords)
