"""Pictures of walks on maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from problems.common.panels import panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAP_INCHES = 3.0  # width and height of a map


def plot_maps(coords: Tensor, walks: Tensor, titles: list[str], lines: Callable[[Tensor], list[tuple]]) -> Figure:
    """A figure with a map per solution: its nodes, the first node of its walk as a square, and its lines.

    Arguments:
        coords: [n, N, 2], in any unit; every panel has its own scale, equal in x and y.
        walks: [n, L] node indices in the order of the visit.
        titles: n lines, each written above its panel.
        lines: the lines of a walk [L], each a colour and the node indices that the line passes.
    """
    figure, axes = panels(titles, MAP_INCHES, MAP_INCHES + 0.3, coords, walks)
    for panel, points, walk in zip(axes, coords.cpu(), walks.cpu(), strict=True):
        for colour, nodes in lines(walk):
            panel.plot(*points[nodes].T.tolist(), color=colour, linewidth=1.0, zorder=1)
        panel.scatter(*points.T.tolist(), s=8, color="black", zorder=2)
        panel.scatter(*points[walk[:1]].T.tolist(), s=40, marker="s", color="tab:red", zorder=3)
        panel.set(aspect="equal", xticks=[], yticks=[], frame_on=False)
    return figure
