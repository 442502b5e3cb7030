"""Pictures of solutions; matplotlib is needed only when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display

    panels = len(titles)
    if panels == 0 or len(coords) != panels or len(tours) != panels:
        raise ValueError(
            f"one title per tour is needed, got {len(coords)} instances, {len(tours)} tours, {panels} titles"
        )
    columns = min(panels, PANELS_PER_ROW)
    rows = -(-panels // columns)
    figure = Figure(figsize=(columns * PANEL_INCHES, rows * (PANEL_INCHES + 0.3)), layout="constrained")
    for place, (points, tour, title) in enumerate(zip(coords.cpu(), tours.cpu(), titles, strict=True), start=1):
        route = points[tour]  # [N, 2]
        axes = figure.add_subplot(rows, columns, place)
        axes.plot(*route[list(range(len(tour))) + [0]].T.tolist(), color="tab:blue", linewidth=1.0, zorder=1)
        axes.scatter(*route.T.tolist(), s=8, color="black", zorder=2)
        axes.scatter(*route[:1].T.tolist(), s=40, marker="s", color="tab:red", zorder=3)
        axes.set(title=title, aspect="equal", xticks=[], yticks=[])
    return figure
