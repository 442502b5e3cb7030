"""How evaluations show instances and solutions of the TSP."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.formats.tsplib import tour_text
from problems.routing.reports import RoutingReports
from problems.tsp.instances import Instance, Original, as_tours


class TSPReports(RoutingReports):
    original = Original

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

    def named_solution(self, originals: Original, index: int, actions: Tensor) -> dict[str, list[int]]:
        """`tour`: node indices from 0, in the order of the input"""
        return {"tour": self.solution(actions)}

    def walks(self, actions: Tensor) -> Tensor:
        return as_tours(actions)

    def lines(self, walk: Tensor) -> list[tuple[str, Tensor]]:
        return [("tab:blue", torch.cat([walk, walk[:1]]))]
