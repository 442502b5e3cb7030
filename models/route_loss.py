"""What the routes of an expert's solution teach beyond its next decision."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from problems.cvrp import State
from problems.cvrp.instances import decode


class Routes(NamedTuple):
    """An expert's routes over tokens 0..n+1: the vehicle on its way, the customers and the depot."""

    tokens: Tensor  # [R, n+1] int64 the vehicle and the customers in the order in which they are served
    before: Tensor  # [R, n] int64 the token before each customer
    after: Tensor  # [R, n+1] int64 the token after each of them
    others: Tensor  # [R, n+1, n+2] bool the other tokens of each one's route; the depot where there are none

    @classmethod
    def of(cls, state: State, rest: Tensor, num_customers: int) -> Routes:
        """Of the decisions `rest` [R, n] from the state on."""
        customers, via_depot = decode(rest, num_customers)
        n = customers.shape[1]
        place = torch.searchsorted(state.near.contiguous(), customers.contiguous()) + 1  # near ascends
        depot = torch.full_like(place[:, :1], n + 1)
        tokens = torch.cat([torch.zeros_like(depot), place], dim=1)
        before = torch.where(via_depot, n + 1, tokens[:, :-1])
        after = torch.cat([torch.where(via_depot, n + 1, place), depot], dim=1)
        number = torch.zeros_like(tokens).scatter_(1, place, via_depot.long().cumsum(dim=1))  # of each one's route
        others = (number[:, :, None] == number[:, None]) & ~torch.eye(n + 1, dtype=torch.bool, device=rest.device)
        return cls(tokens, before, after, torch.cat([others, ~others.any(dim=2, keepdim=True)], dim=2))


class RoutePointers(nn.Module):
    """Tokens [R, n+2, width] that point at their neighbours and at the others of their routes."""

    def __init__(self, width: int):
        super().__init__()
        self.neighbours, self.route = Pointers(width), Pointers(width)

    def loss(self, x: Tensor, routes: Routes) -> Tensor:
        """Cross-entropies of each customer's two neighbours and of the vehicle's next, half a point each; and of the
        others on each one's route, all alike, or the depot where there are none.
        """
        size = x.shape[1]
        logs = self.neighbours(x).flatten(1)  # [R, (n+2) * (n+2)]
        backwards = logs.gather(1, routes.tokens[:, 1:] * size + routes.before)
        forwards = logs.gather(1, routes.tokens * size + routes.after)
        together = self.route(x)[:, :-1].where(routes.others, 0.0).sum(dim=2) / routes.others.sum(dim=2)
        return -(backwards.mean() + forwards.mean()) / 2 - together.mean()


class Pointers(nn.Module):
    """Log-probabilities [R, n, n] with which each of the tokens [R, n, width] points at every other."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        scores = (self.query(x) @ self.key(x).mT).float() * x.shape[-1] ** -0.5
        itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        return scores.masked_fill(itself, -math.inf).log_softmax(dim=2)
