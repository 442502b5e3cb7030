"""Pictures of routes."""

from __future__ import annotations

import colorsys
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor

from problems.routing.plots import plot_maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_routes(coords: Tensor, walks: Tensor, titles: list[str]) -> Figure:
    """A figure with one panel per solution of a CVRP, a colour per route and the depot marked by a square.

    Arguments:
        coords: [n, N+1, 2], in any unit; every panel has its own scale, equal in x and y.
        walks: [n, 2N+1] node indices from depot (0) to depot; nodes may be repeated.
        titles: n lines, each written above its panel.
    """
    return plot_maps(coords, walks, titles, _routes)


def _routes(walk: Tensor) -> list[tuple[tuple[float, float, float], Tensor]]:
    """The routes of a walk, each from depot to depot, with colours as different as so many can be."""
    stops = (walk == 0).nonzero().flatten().tolist()
    routes = [walk[start : end + 1] for start, end in pairwise(stops) if end - start > 1]
    hues = [place * 0.618034 % 1 for place in range(len(routes))]  # steps of the golden ratio keep all of them apart
    return [(colorsys.hls_to_rgb(hue, (0.55, 0.42)[i % 2], 0.7), routes[i]) for i, hue in enumerate(hues)]
