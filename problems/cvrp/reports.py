"""How evaluations show instances and solutions of the CVRP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gumbeldore.reports import Reports
from problems.cvrp.instances import Instance, Original, as_routes, as_walks, decode
from problems.cvrp.plots import plot_routes
from problems.formats.cvrplib import solution_text
from problems.routing.distances import UNROUNDED, title_of
from problems.routing.maps import map_remarks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class CVRPReports(Reports):
    def size(self, instance: Instance, horizon: int) -> str:
        """Customers"""
        return str(instance.coords.shape[1] - 1)

    def solution(self, actions: Tensor) -> list[int]:
        """The nodes from depot (0) to depot."""
        walk = as_walks(actions[None], len(actions))[0]
        return walk[torch.cat([torch.ones_like(walk[:1], dtype=torch.bool), walk[1:] != walk[:-1]])].tolist()

    def describe(self, actions: Tensor) -> dict[str, Tensor]:
        """The number of routes [n]."""
        return {"routes": decode(actions, actions.shape[1])[1].sum(dim=1)}

    def solution_file(
        self, originals: Original, index: int, name: str, actions: Tensor, cost: float
    ) -> tuple[str, str]:
        """CVRPLIB's `.sol`"""
        return ".sol", solution_text(as_routes(actions), cost)

    def has_files(self, originals: Original, index: int) -> bool:
        """Where the instance came from a file of the same library, or with a matrix of distances."""
        return title_of(originals.metrics[index]) != UNROUNDED

    def named_solution(self, originals: Original, index: int, actions: Tensor) -> dict[str, list[list[int]]]:
        """`routes`: the customers of each, numbered from 1 in the order of the input, without the depot"""
        return {"routes": as_routes(actions)}

    def remarks(self, originals: list[Any]) -> list[str]:
        """How good the maps are that the policy sees of instances with a matrix of distances."""
        return map_remarks([each for each in originals if isinstance(each, Original)])

    def render(self, instance: Instance | Original, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with one panel per solution, one colour per route."""
        return plot_routes(instance.coords, as_walks(actions, actions.shape[1]), titles)
