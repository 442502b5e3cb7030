"""The savings heuristic for the CVRP as a policy: a baseline that needs no training [Clarke & Wright 1964]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.savings import checked_shapes, plan_of
from problems.cvrp import State
from problems.cvrp_types import Instance


class SavingsHeuristic(nn.Module):
    """Logits of which greedy search drives the shortest of the plans of several route shapes, made anew each time.

    The vehicle goes where the plan leads it; from the depot to an end of the route with the farthest customer.

    Arguments:
        shapes: how many, or a list of them, see `savings_plan`
    """

    def __init__(self, shapes: int | Sequence[float | Sequence[float]]):
        super().__init__()
        self.register_buffer("shapes", checked_shapes(shapes), persistent=False)
        if not len(self.shapes):
            raise ValueError("the savings heuristic needs a route shape, got none")

    def encode(self, instance: Instance) -> Instance:
        """Nothing is worth keeping."""
        return instance

    def forward(self, context: Instance, state: State) -> Tensor:
        """Logits [R, 2N]: 1 where it goes, 0 elsewhere."""
        nodes = torch.cat([state.origin[:, None], state.near, torch.zeros_like(state.origin[:, None])], dim=1)
        points = context.coords.gather(1, nodes[..., None].expand(-1, -1, 2))  # [R, n+2, 2]
        plan = plan_of(context, state, points, self.shapes)
        links, route = plan.links[:, 1:-1], plan.route[:, 1:-1]  # of the customers
        following = (links == 0).any(dim=2)  # whom the vehicle serves next
        away = (points[:, 1:-1] - points[:, -1:]).norm(dim=-1).masked_fill(route == 0, -1.0)
        farthest = route.gather(1, away.argmax(dim=1, keepdim=True))
        begins = (links == nodes.shape[1] - 1).any(dim=2) & (route == farthest) & ~following.any(dim=1, keepdim=True)
        begins &= begins.cumsum(dim=1) == 1  # either end is as good; the first of them
        goes = torch.stack([following, begins], dim=1).float()
        everywhere = goes.new_zeros(len(nodes), 2, context.demands.shape[1] - 1)
        return everywhere.scatter(2, (state.near - 1)[:, None].expand_as(goes), goes).flatten(1)


class Savings:
    """The heuristic with Clarke and Wright's shape alone, and with several; an evaluation shows the better.

    Arguments:
        shapes: the several
    """

    problem = "cvrp"

    def __init__(self, shapes: int | Sequence[float | Sequence[float]]):
        several = SavingsHeuristic(shapes)
        self.heuristics = {"shape 1": SavingsHeuristic(1), f"{len(several.shapes)} shapes": several}

    def policies(self) -> dict[str, nn.Module]:
        return self.heuristics
