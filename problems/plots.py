"""Pictures of solutions; matplotlib is needed only when one is drawn."""

from __future__ import annotations

import colorsys
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS_PER_ROW = 4
PANEL_INCHES = 3.0


def plot_tours(coords: Tensor, tours: Tensor, titles: list[str]) -> Figure:
    """A figure with one panel per closed tour, its start node marked by a square.

    Arguments:
        coords: [n, N, 2], in any unit; every panel has its own scale, equal in x and y.
        tours: [n, N] node indices in the order of the visit.
        titles: n lines, each written above its panel.
    """
    return _plot(coords, tours, titles, lambda tour: [("tab:blue", torch.cat([tour, tour[:1]]))])


def plot_routes(coords: Tensor, walks: Tensor, titles: list[str]) -> Figure:
    """A figure with one panel per solution of a CVRP, a colour per route and the depot marked by a square.

    Arguments:
        coords: [n, N+1, 2], in any unit; every panel has its own scale, equal in x and y.
        walks: [n, 2N+1] node indices from depot (0) to depot; nodes may be repeated.
        titles: n lines, each written above its panel.
    """
    return _plot(coords, walks, titles, _routes)


def _routes(walk: Tensor) -> list[tuple[tuple[float, float, float], Tensor]]:
    """The routes of a walk, each from depot to depot, with colours as different as so many can be."""
    stops = (walk == 0).nonzero().flatten().tolist()
    routes = [walk[start : end + 1] for start, end in pairwise(stops) if end - start > 1]
    hues = [place * 0.618034 % 1 for place in range(len(routes))]  # steps of the golden ratio keep all of them apart
    return [(colorsys.hls_to_rgb(hue, (0.55, 0.42)[i % 2], 0.7), routes[i]) for i, hue in enumerate(hues)]


def _plot(coords: Tensor, orders: Tensor, titles: list[str], lines: Callable[[Tensor], list[tuple]]) -> Figure:
    """A panel per order [n, L] of nodes: its nodes, the first as a square, and `lines` of it (colour, nodes)."""
    from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display

    panels = len(titles)
    if panels == 0 or len(coords) != panels or len(orders) != panels:
        raise ValueError(
            f"one title per solution is needed, got {len(coords)} instances, {len(orders)} solutions, {panels} titles"
        )
    columns = min(panels, PANELS_PER_ROW)
    rows = -(-panels // columns)
    figure = Figure(figsize=(columns * PANEL_INCHES, rows * (PANEL_INCHES + 0.3)), layout="constrained")
    for place, (points, order, title) in enumerate(zip(coords.cpu(), orders.cpu(), titles, strict=True), start=1):
        axes = figure.add_subplot(rows, columns, place)
        for colour, nodes in lines(order):
            axes.plot(*points[nodes].T.tolist(), color=colour, linewidth=1.0, zorder=1)
        axes.scatter(*points.T.tolist(), s=8, color="black", zorder=2)
        axes.scatter(*points[order[:1]].T.tolist(), s=40, marker="s", color="tab:red", zorder=3)
        axes.set(title=title, aspect="equal", xticks=[], yticks=[], frame_on=False)
    return figure
