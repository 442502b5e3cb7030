"""Figures of several panels, a solution in each; matplotlib is needed only when a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_PER_ROW = 4
MAP_INCHES = 3.0  # width and height of a map


def panels(titles: list[str], width: float, height: float, *parts: Tensor) -> tuple[Figure, list[Axes]]:
    """A figure with an empty panel below each title, at most PANELS_PER_ROW side by side.

    Arguments:
        width, height: of a panel, in inches
        parts: what will be drawn; the leading dimension of each counts the solutions

    Raises ValueError unless there are as many titles as solutions, and one at least.
    """
    from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display

    if not titles or any(len(part) != len(titles) for part in parts):
        counts = ", ".join(str(len(part)) for part in parts)
        raise ValueError(f"one title per solution is needed, got {len(titles)} titles and parts of {counts} solutions")
    columns = min(len(titles), PANELS_PER_ROW)
    rows = -(-len(titles) // columns)
    figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
    axes = [figure.add_subplot(rows, columns, place) for place in range(1, len(titles) + 1)]
    for each, title in zip(axes, titles, strict=True):
        each.set_title(title, parse_math=False)  # names may hold any sign
    return figure, axes


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
