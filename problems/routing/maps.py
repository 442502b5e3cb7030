"""A map for a matrix of distances: points in the plane, which is what the networks for TSP and CVRP see."""

from __future__ import annotations

from typing import Any

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


def map_remarks(originals: list[Any]) -> list[str]:
    """What one has to know of instances whose network sees but a map: a line, none if there are no such instances.

    Arguments:
        originals: each with `coords` [n, N, 2] and n `metrics`; where a metric is a matrix, the coordinates are a map
    """
    nodes = [each for original in originals for each in zip(original.coords, original.metrics, strict=True)]
    errors = [map_error(*each) for each in nodes if isinstance(each[1], Tensor)]
    if not errors:
        return []
    who = f"{len(errors)} of {len(nodes)} instances have" if len(errors) < len(nodes) else "the instances have"
    worst = f" (by {max(errors):.0%} at most)" if len(errors) > 1 else ""
    what = f"distances on it differ from theirs by {sum(errors) / len(errors):.0%} on average{worst}"
    return [f"{who} distances of their own: costs are by these, but the policy sees a map; {what}"]
