"""What evaluations show of the TSP and of the CVRP alike: maps of solutions, and what one has to know of maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from gumbeldore.reports import Reports
from problems.common.panels import panels
from problems.formats.maps import map_error
from problems.formats.tsplib import UNROUNDED
from problems.routing.distances import title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAP_INCHES = 3.0  # width and height of a map


class RoutingReports(Reports, ABC):
    """Reports of a problem whose solutions are walks on a map."""

    original: ClassVar[type]  # of the problem, with `coords` [n, N, 2] and n `metrics`

    @abstractmethod
    def walks(self, actions: Tensor) -> Tensor:
        """The nodes [n, L] of solutions in the order of the visit; the first one is drawn as a square."""

    @abstractmethod
    def lines(self, walk: Tensor) -> list[tuple[Any, Tensor]]:
        """The lines of a walk [L], each a colour and the node indices that the line passes."""

    def has_files(self, originals: Any, index: int) -> bool:
        """Where the instance came from a file of the same library, or with a matrix of distances."""
        return title_of(originals.metrics[index]) != UNROUNDED

    def remarks(self, originals: list[Any]) -> list[str]:
        """How good the maps are that the policy sees of instances with a matrix of distances."""
        own = [each for each in originals if isinstance(each, self.original)]
        nodes = [each for original in own for each in zip(original.coords, original.metrics, strict=True)]
        errors = [map_error(*each) for each in nodes if isinstance(each[1], Tensor)]
        if not errors:
            return []
        who = f"{len(errors)} of {len(nodes)} instances have" if len(errors) < len(nodes) else "the instances have"
        worst = f" (by {max(errors):.0%} at most)" if len(errors) > 1 else ""
        what = f"distances on it differ from theirs by {sum(errors) / len(errors):.0%} on average{worst}"
        return [f"{who} distances of their own: costs are by these, but the policy sees a map; {what}"]

    def render(self, instance: Any, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with a map per solution, in any unit; every panel has its own scale, equal in x and y."""
        walks = self.walks(actions)
        figure, axes = panels(titles, MAP_INCHES, MAP_INCHES + 0.3, instance.coords, walks)
        for panel, points, walk in zip(axes, instance.coords.cpu(), walks.cpu(), strict=True):
            for colour, nodes in self.lines(walk):
                panel.plot(*points[nodes].T.tolist(), color=colour, linewidth=1.0, zorder=1)
            panel.scatter(*points.T.tolist(), s=8, color="black", zorder=2)
            panel.scatter(*points[walk[:1]].T.tolist(), s=40, marker="s", color="tab:red", zorder=3)
            panel.set(aspect="equal", xticks=[], yticks=[], frame_on=False)
        return figure
