"""Pictures of tours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from problems.routing.plots import plot_maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_tours(coords: Tensor, tours: Tensor, titles: list[str]) -> Figure:
    """A figure with one panel per closed tour, its start node marked by a square.

    Arguments:
        coords: [n, N, 2], in any unit; every panel has its own scale, equal in x and y.
        tours: [n, N] node indices in the order of the visit.
        titles: n lines, each written above its panel.
    """
    return plot_maps(coords, tours, titles, lambda tour: [("tab:blue", torch.cat([tour, tour[:1]]))])
