"""Auxiliary losses: what the whole of an expert's solution teaches the tokens, beyond its next decision.

None of them is in the papers; docs/decisions.md has what each one brings. The networks use them in training alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from problems import cvrp, jssp, tsp
from problems.cvrp.instances import decode
from problems.jssp.instances import machine_of


def check_weight(name: str, weight: float) -> None:
    """Raises ValueError that names the loss if its weight is negative."""
    if weight < 0:
        raise ValueError(f"{name} must be at least 0, got {weight}")


NO_TOKEN = -1  # the place of a node that has no token: what would point at it is not learnt


def places(near: Tensor, nodes: Tensor) -> Tensor:
    """The place [R, n] of each of the nodes [R, n] among those in view, near [R, k] ascending, or NO_TOKEN."""
    place = torch.searchsorted(near.contiguous(), nodes.contiguous()).clamp(max=near.shape[1] - 1)
    return place.masked_fill(near.gather(1, place) != nodes, NO_TOKEN)


class SuccessorLoss(nn.Module):
    """TSP: every node in view points at its successor in the expert's tour: up to k + 1 decisions per example."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, state: tsp.State, remaining_actions: Tensor) -> Tensor:
        """Mean cross-entropy [] of the successors in view.

        Arguments:
            x: tokens [R, k+2, width] of the origin, the nodes of `state.near` and the destination
            remaining_actions: [R, n] the remaining nodes in the expert's order
        """
        # Tokens 0..k (all but the destination) choose among tokens 1..k+1 (all but the origin), not themselves.
        scores = (self.query(x[:, :-1]) @ self.key(x[:, 1:]).transpose(1, 2)).float() * x.shape[-1] ** -0.5
        itself = torch.ones_like(scores[0], dtype=torch.bool).tril(-1).triu(-1)
        place = places(state.near, remaining_actions)
        destination = state.near.shape[1]
        first, last = torch.zeros_like(place[:, :1]), torch.full_like(place[:, :1], destination)
        # The destination has no successor: what comes after nodes out of view is written there, and left out.
        token = (place + 1).masked_fill(place == NO_TOKEN, destination + 1)
        successor = torch.full_like(x[..., 0], NO_TOKEN, dtype=torch.int64)
        successor.scatter_(1, torch.cat([first, token], dim=1), torch.cat([place, last], dim=1))
        logits, target = scores.masked_fill(itself, -math.inf).flatten(0, 1), successor[:, :-1].flatten()
        return F.cross_entropy(logits, target, ignore_index=NO_TOKEN)


class RouteLoss(nn.Module):
    """CVRP: every node points at its neighbours and at all nodes of its route in the expert's solution.

    Deep supervision: the tokens after half of the layers and after all layers learn it, by pointers of their own.
    """

    def __init__(self, width: int):
        super().__init__()
        self.halfway, self.final = RoutePointers(width), RoutePointers(width)

    def forward(self, tokens: list[Tensor], state: cvrp.State, remaining_actions: Tensor, customers: int) -> Tensor:
        """Sum [] of the losses of both outputs.

        Arguments:
            tokens: two of [R, k+2, width]: the vehicle, the customers of `state.near` and the depot
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
    def of(cls, state: cvrp.State, remaining_actions: Tensor, customers: int) -> Routes:
        """The routes of the decisions [R, n] from the state on."""
        customer, via_depot = decode(remaining_actions, customers)
        rows, depot = len(customer), state.near.shape[1] + 1  # the depot's token
        place = places(state.near, customer)
        token = torch.where(place == NO_TOKEN, NO_TOKEN, place + 1)
        order = F.pad(token, (1, 0))  # the vehicle is token 0
        before = torch.where(via_depot, depot, order[:, :-1])
        after = F.pad(torch.where(via_depot, depot, token), (0, 1), value=depot)
        route = order.new_zeros(
            rows, depot + 1
        )  # number of each token's route; in the depot's place, of any out of view
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


class OrderLoss(nn.Module):
    """JSSP: of every two unscheduled operations of a machine, which one does the expert schedule first?"""

    def __init__(self, width: int):
        super().__init__()
        self.earlier, self.later = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, instance: jssp.Instance, state: jssp.State, remaining_actions: Tensor) -> Tensor:
        """Mean cross-entropy [] of the pairs of each row, then of the rows; 0 for a row without pairs.

        Arguments:
            x: tokens [R, n, width] of the operations that remain
            remaining_actions: [R, n] the expert's jobs
        """
        jobs, ops = instance.times.shape[1:]
        # The operation that each decision schedules: the k-th time its job occurs, k on from next_op.
        one_hot = F.one_hot(remaining_actions, jobs)  # [R, n, J]
        op = (one_hot.cumsum(dim=1) * one_hot).sum(dim=2) - 1 + state.next_op.gather(1, remaining_actions)
        order = (remaining_actions * ops + op).argsort(dim=1)  # [R, n] when each remaining operation is scheduled
        scores = (self.earlier(x) @ self.later(x).mT).float() * x.shape[-1] ** -0.5
        scores = scores - scores.mT
        machine = machine_of(instance, state.remaining)
        pairs = (machine[:, :, None] == machine[:, None, :]) & (order[:, :, None] < order[:, None, :])
        return ((F.softplus(-scores) * pairs).sum(dim=(1, 2)) / pairs.sum(dim=(1, 2)).clamp(min=1)).mean()
