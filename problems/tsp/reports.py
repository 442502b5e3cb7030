"""How evaluations show instances and solutions of the TSP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from gumbeldore.reports import Reports
from problems.formats.tsplib import tour_text
from problems.routing.distances import UNROUNDED, title_of
from problems.routing.maps import map_remarks
from problems.tsp.instances import Instance, Original, as_tours
from problems.tsp.plots import plot_tours

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class TSPReports(Reports):
    def size(self, instance: Instance, horizon: int) -> str:
        """Nodes"""
        return str(instance.coords.shape[1])

    def solution(self, actions: Tensor) -> list[int]:
        """The tour as node indices from 0, in the order of the input."""
        return [0, *actions.tolist()]

    def solution_file(
        self, originals: Original, index: int, name: str, actions: Tensor, cost: float
    ) -> tuple[str, str]:
        """TSPLIB's `.tour`"""
        return ".tour", tour_text(name, self.solution(actions), cost)

    def has_files(self, originals: Original, index: int) -> bool:
        """Where the instance came from a file of the same library, or with a matrix of distances."""
        return title_of(originals.metrics[index]) != UNROUNDED

    def named_solution(self, originals: Original, index: int, actions: Tensor) -> dict[str, list[int]]:
        """`tour`: node indices from 0, in the order of the input"""
        return {"tour": self.solution(actions)}

    def remarks(self, originals: list[Any]) -> list[str]:
        """How good the maps are that the policy sees of instances with a matrix of distances."""
        return map_remarks([each for each in originals if isinstance(each, Original)])

    def render(self, instance: Instance | Original, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with one panel per tour."""
        return plot_tours(instance.coords, as_tours(actions), titles)
