"""What the TSP and its evaluation sets share: the instance, and the one check that actions form a tour."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from problems.formats.tsplib import Metric


class Instance(NamedTuple):
    coords: Tensor  # [R, N, 2] in the unit square


class Original(NamedTuple):
    """Instances of one size in their own units."""

    coords: Tensor  # [n, N, 2] float64
    metrics: list[Metric]  # n


def check_tours(actions: Tensor, num_nodes: int) -> None:
    """Raises ValueError unless the action sequences [R, N-1] are permutations of 1..N-1; waits for the device."""
    if actions.dim() != 2 or actions.shape[1] != num_nodes - 1:
        raise ValueError(f"a tour of {num_nodes} nodes has {num_nodes - 1} actions, got shape {tuple(actions.shape)}")
    expected = torch.arange(1, num_nodes, device=actions.device)
    wrong = (actions.sort(dim=1).values != expected).any(dim=1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(f"row {row} does not visit each of the nodes 1..{num_nodes - 1} once: {actions[row].tolist()}")


def as_tours(actions: Tensor) -> Tensor:
    """Tours [R, N] starting in node 0 from action sequences [R, N-1]."""
    return torch.cat([torch.zeros_like(actions[:, :1]), actions], dim=1)


def rotated(tours: Tensor, start: Tensor) -> Tensor:
    """The tours [R, N] beginning at another place [R]."""
    num_nodes = tours.shape[1]
    return tours.gather(1, (start[:, None] + torch.arange(num_nodes, device=tours.device)) % num_nodes)


def as_actions(tours: Tensor) -> Tensor:
    """The action sequences [R, N-1] of tours [R, N] that begin anywhere."""
    return rotated(tours, (tours == 0).int().argmax(dim=1))[:, 1:]


def swapped(nodes: Tensor, start: Tensor) -> Tensor:
    """Node numbers [R, ...], of which 0 and `start` [R] have changed places."""
    start = start.view(-1, *[1] * (nodes.dim() - 1))
    return torch.where(nodes == start, 0, torch.where(nodes == 0, start, nodes))
