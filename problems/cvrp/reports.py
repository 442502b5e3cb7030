"""How evaluations show instances and solutions of the CVRP."""

from __future__ import annotations

import colorsys
from itertools import pairwise

import torch
from torch import Tensor

from problems.cvrp.instances import Instance, Original, as_routes, as_walks, decode
from problems.formats.cvrplib import solution_text
from problems.routing.reports import RoutingReports


class CVRPReports(RoutingReports):
    original = Original

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

    def named_solution(self, originals: Original, index: int, actions: Tensor) -> dict[str, list[list[int]]]:
        """`routes`: the customers of each, numbered from 1 in the order of the input, without the depot"""
        return {"routes": as_routes(actions)}

    def walks(self, actions: Tensor) -> Tensor:
        return as_walks(actions, actions.shape[1])

    def lines(self, walk: Tensor) -> list[tuple[tuple[float, float, float], Tensor]]:
        """The routes, each from depot to depot, with colours as different as so many can be."""
        stops = (walk == 0).nonzero().flatten().tolist()
        routes = [walk[start : end + 1] for start, end in pairwise(stops) if end - start > 1]
        hues = [place * 0.618034 % 1 for place in range(len(routes))]  # steps of the golden ratio keep them apart
        return [(colorsys.hls_to_rgb(hue, (0.55, 0.42)[i % 2], 0.7), routes[i]) for i, hue in enumerate(hues)]
