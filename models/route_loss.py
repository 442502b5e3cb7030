"""The auxiliary loss of the networks for the CVRP: every node learns its neighbours and its route.

It is not in the papers (docs/decisions.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.policy import NO_TOKEN, places
from problems.cvrp import State
from problems.cvrp.instances import decode


class RouteLoss(nn.Module):
    """Every node points at its neighbours and at all nodes of its route in the expert's solution.

    Deep supervision: the tokens after half of the layers and after all layers learn it, by pointers of their own.
    """

    def __init__(self, width: int):
        super().__init__()
        self.halfway, self.final = RoutePointers(width), RoutePointers(width)

    def forward(self, tokens: list[Tensor], state: State, remaining_actions: Tensor, customers: int) -> Tensor:
        """Sum [] of the losses of both outputs.

        Arguments:
            tokens: two of [R, k+2, width]: the vehicle, the customers of `state.view` and the depot
            remaining_actions: [R, n] the expert's decisions
            customers: N of the instance
        """
        routes = Routes.of(state, remaining_actions, customers)
        halfway, final = tokens
        return self.halfway(halfway, routes) + self.final(final, routes)


class Routes(NamedTuple):
    """An expert's routes over tokens 0..k+1: the vehicle on its way, the customers in view and the depot."""

    order: Tensor  # [R, n+1] int64 the vehicle, then the customers as the expert serves them; or NO_TOKEN
    before: Tensor  # [R, n] int64 the token before each customer, or NO_TOKEN
    after: Tensor  # [R, n+1] int64 the token after the vehicle and after each customer, or NO_TOKEN
    others: Tensor  # [R, k+1, k+2] bool the other tokens on the route of each token; the depot where there are none

    @classmethod
    def of(cls, state: State, remaining_actions: Tensor, customers: int) -> Routes:
        """The routes of the decisions [R, n] from the state on."""
        customer, via_depot = decode(remaining_actions, customers)
        rows, depot = len(customer), state.view.shape[1] + 1  # the depot's token
        place = places(state.view, customer)
        token = torch.where(place == NO_TOKEN, NO_TOKEN, place + 1)
        order = F.pad(token, (1, 0))  # the vehicle is token 0
        before = torch.where(via_depot, depot, order[:, :-1])
        after = F.pad(torch.where(via_depot, depot, token), (0, 1), value=depot)
        # The number of each token's route; in the depot's place, that of any out of view.
        route = order.new_zeros(rows, depot + 1)
        route.scatter_(1, token.where(token > 0, depot), via_depot.long().cumsum(dim=1))
        route = route[:, :-1]
        others = (route[:, :, None] == route[:, None]) & ~torch.eye(depot, dtype=torch.bool, device=order.device)
        return cls(order, before, after, torch.cat([others, ~others.any(dim=2, keepdim=True)], dim=2))


class RoutePointers(nn.Module):
    """The route loss of one output of the transformer."""

    def __init__(self, width: int):
        super().__init__()
        self.neighbours, self.route = Pointers(width), Pointers(width)

    def forward(self, x: Tensor, routes: Routes) -> Tensor:
        """Loss [] of tokens [R, k+2, width], the sum of two cross-entropies.

        The first one is the mean of two: of the token before each customer, and of the token after each customer and
        after the vehicle, where both tokens are in view. The second one is of the others on each token's route, all
        alike, or of the depot where there are none.
        """
        log_probs = self.neighbours(x)
        before = _mean_at(log_probs, routes.order[:, 1:], routes.before)
        after = _mean_at(log_probs, routes.order, routes.after)
        others = self.route(x)[:, :-1].where(routes.others, 0.0).sum(dim=2) / routes.others.sum(dim=2)
        return -(before + after) / 2 - others.mean()


def _mean_at(log_probs: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Mean [] of the log-probabilities [R, k+2, k+2] from source to target [R, n], where both are in view."""
    seen = (source != NO_TOKEN) & (target != NO_TOKEN)
    place = (source * log_probs.shape[2] + target).where(seen, 0)
    return log_probs.flatten(1).gather(1, place).where(seen, 0.0).sum() / seen.sum()


class Pointers(nn.Module):
    """Log-probabilities [R, n, n] with which each of the tokens [R, n, width] points at every other token."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        scores = (self.query(x) @ self.key(x).mT).float() * x.shape[-1] ** -0.5
        itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        return scores.masked_fill(itself, -math.inf).log_softmax(dim=2)
