"""A map for a matrix of distances: points in the plane, which is what the networks for TSP and CVRP see."""

from __future__ import annotations

import torch
from torch import Tensor


def classical_scaling(distances: Tensor) -> Tensor:
    """Points [N, 2] about as far from each other as `distances` [N, N] say, those of both directions averaged.

    Classical multidimensional scaling [Torgerson 1952]: distances between points in a plane are reproduced exactly, up
    to rotation and reflection. The diagonal is ignored. N is at least 2.
    """
    squared = ((distances + distances.T) / 2).fill_diagonal_(0.0).square()
    centred = squared - squared.mean(dim=0) - squared.mean(dim=1, keepdim=True) + squared.mean()
    values, vectors = torch.linalg.eigh(centred / -2)
    points = vectors[:, [-1, -2]] * values[[-1, -2]].clamp(min=0).sqrt()
    farthest = points.gather(0, points.abs().argmax(dim=0, keepdim=True))  # [1, 2]
    return torch.where(farthest < 0, -points, points)  # signs of eigenvectors are arbitrary


def map_error(points: Tensor, distances: Tensor) -> float:
    """How far the distances on a map [N, 2], scaled by the best factor (least squares), are from `distances` [N, N].

    The mean absolute difference over the mean distance; the diagonal is ignored.
    """
    wanted = distances.clone().fill_diagonal_(0.0)
    shown = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    factor = (shown * wanted).sum() / shown.square().sum().clamp(min=1e-300)
    return float((factor * shown - wanted).abs().sum() / wanted.sum().clamp(min=1e-300))
