"""Figures of several panels, a solution in each; matplotlib is needed only when a figure is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_PER_ROW = 4


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
