"""BQ for the CVRP: a transformer over what is left of the problem [Drakulic et al. 2023; GD, appendix C.2]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.blocks import ReZeroLayers, check_sizes
from models.frame import in_own_frame
from models.policy import TokenPolicy
from models.savings import checked_shapes, savings_plan
from problems.cvrp import State
from problems.cvrp_types import Instance, decode


class BQ(TokenPolicy):
    """Logits of the next customer, directly or via the depot, from [origin, remaining customers, depot].

    Only the customers looked at (`State.near`) are fed, and there is no positional encoding. Each token knows its
    place, its demand and the capacity left, both in units of the capacity.

    Arguments:
        width: of the embeddings; a multiple of heads
        layers, heads, feedforward: of the transformer
        own_frame: express the nodes as seen from the origin and from the depot, and give how much more than the
            vehicle has left is demanded and what of it the last vehicle will have to spare. The policy does not change
            when the instance is moved, rotated, mirrored or scaled (at the first decision, in the depot: moved or
            scaled). Not in the paper; it learns from fewer samples (docs/log.md).
        route_loss: weight of a further training loss: in the expert's solution, every node also points at its two
            neighbours and at all nodes of its route, which teaches far more decisions per example than one. 0 leaves it
            out, as the paper does.
        savings: tell each node its neighbours in the routes that the savings heuristic would make of the rest, how
            often they lead it to the depot, and whether the vehicle would serve it, and serve it next. Of the plans of
            several route shapes (see `savings_plan`) the shortest is told; without any shape, none. Not in the paper; a
            network takes long to learn to plan that far (docs/log.md).
    """

    problem = "cvrp"

    def __init__(
        self,
        width: int,
        layers: int,
        heads: int,
        feedforward: int,
        own_frame: bool,
        route_loss: float,
        savings: Sequence[float] = (),
    ):
        check_sizes(width=width, layers=layers, feedforward=feedforward)
        super().__init__(route_loss=route_loss)
        self.own_frame = own_frame
        self.register_buffer("shapes", checked_shapes(savings), persistent=False)
        features = 15 if own_frame else 4
        self.embed = nn.Linear(2 * features + 3 if len(self.shapes) else features, width)
        self.origin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.depot = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = ReZeroLayers(layers, width, heads, feedforward)
        self.head = nn.Linear(width, 2)
        if route_loss:
            self.neighbours, self.route = Pointers(width), Pointers(width)

    def row_size(self, context: Instance, state: State) -> tuple[int, int]:
        tokens = state.near.shape[1] + 2
        return self.layers[0].heads * tokens**2, tokens * len(self.origin)

    def tokens(self, context: Instance, state: State) -> Tensor:
        """The transformed tokens [R, n+2, width]."""
        nodes = torch.cat([state.origin[:, None], state.near, torch.zeros_like(state.origin[:, None])], dim=1)
        points = context.coords.gather(1, nodes[..., None].expand(-1, -1, 2))  # [R, n+2, 2]
        capacity = context.capacity[:, None].float()
        demand = (context.demands.gather(1, nodes) / capacity)[..., None]
        left = (state.left[:, None] / capacity)[..., None].expand_as(demand)
        features = [points, demand, left]
        if self.own_frame:
            ahead = (context.demands.gather(1, state.remaining).sum(dim=1) - state.left)[:, None] / capacity  # [R, 1]
            spare = torch.cat([ahead, ahead.ceil() - ahead], dim=1)[:, None].expand(-1, nodes.shape[1], -1)
            features = [*in_both_frames(points), demand, left, spare]
        features = torch.cat(features, dim=2)
        with torch.autocast(points.device.type, enabled=False):  # float32: bf16 would blur neighbours
            if len(self.shapes):
                features = torch.cat([features, *self._planned(context, state, points, features)], dim=2)
            x = self.embed(features)
        x = torch.cat([x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.depot], dim=1)
        return self.layers(x)

    def _planned(self, context: Instance, state: State, points: Tensor, features: Tensor) -> list[Tensor]:
        """What the savings heuristic's routes tell of each node: see `savings`."""
        nowhere = context.capacity + 1  # from the depot
        load = torch.where(state.origin > 0, context.capacity - state.left, nowhere)
        load = torch.cat([load[:, None], context.demands.gather(1, state.near)], dim=1)
        plan = savings_plan(points, load, context.capacity, self.shapes)
        rows, tokens, _ = points.shape
        first = tokens * torch.arange(rows, device=points.device)[:, None]  # of each row
        before, after = ((first + link).flatten() for link in plan.links.unbind(dim=2))
        flat = features.flatten(0, 1)
        around = (flat.index_select(0, before) + flat.index_select(0, after)).view_as(features)
        served = nn.functional.pad(plan.aboard, (0, 1))
        flags = (plan.links == tokens - 1).sum(dim=2), served, (plan.links == 0).any(dim=2)
        return [around, torch.stack(flags, dim=2).float()]

    def logits(self, context: Instance, state: State, x: Tensor) -> Tensor:
        """[R, 2N]; -inf on customers that are not looked at."""
        rows, num_nodes = context.demands.shape
        logits = self.head(x[:, 1:-1]).float().mT  # [R, 2, n]
        everywhere = torch.full((rows, 2, num_nodes - 1), -math.inf, device=logits.device)
        return everywhere.scatter(2, (state.near - 1)[:, None].expand_as(logits), logits).flatten(1)

    def further_loss(self, context: Instance, state: State, x: Tensor, rest: Tensor) -> Tensor:
        """Cross-entropies of each customer's two neighbours and of the origin's successor, half a point each; and of
        the others on each one's route, all alike, or the depot where there are none."""
        customers, via_depot = decode(rest, context.coords.shape[1] - 1)
        rows, n = customers.shape
        # Tokens 0..n are the origin and the customers, the depot is token n + 1; targets are tokens 1..n+1.
        place = torch.searchsorted(state.near.contiguous(), customers.contiguous()) + 1  # [R, n]; near ascends
        depot = torch.full_like(place[:, :1], n + 1)
        before = torch.where(via_depot, n + 1, torch.cat([torch.zeros_like(depot), place[:, :-1]], dim=1))
        after = torch.cat([torch.where(via_depot, n + 1, place), depot], dim=1)  # [R, n+1] of the origin, then of all
        tokens = torch.cat([torch.zeros_like(depot), place], dim=1)  # [R, n+1] in the expert's order
        logs = self.neighbours(x)
        backwards = logs.gather(1, place[..., None].expand(-1, -1, n + 2)).gather(2, before[..., None])
        forwards = logs.gather(1, tokens[..., None].expand(-1, -1, n + 2)).gather(2, after[..., None])

        route = torch.zeros_like(tokens).scatter_(1, place, via_depot.long().cumsum(dim=1))  # [R, n+1] of tokens 0..n
        others = (route[:, :, None] == route[:, None]) & ~torch.eye(n + 1, dtype=torch.bool, device=x.device)
        others = torch.cat([others, ~others.any(dim=2, keepdim=True)], dim=2)  # [R, n+1, n+2]
        together = self.route(x)[:, :-1].where(others, 0.0).sum(dim=2) / others.sum(dim=2)
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


def in_both_frames(points: Tensor) -> list[Tensor]:
    """Points [R, n+2, 2] as seen from the origin, the first, and from the depot, the last: 11 features.

    From either, coordinates in the frame in which the other lies on the x axis, and the distances from both; the
    direction from the depot; and the distance between the two.
    """
    features = []
    for seen in (in_own_frame(points), in_own_frame(points.flip(1)).flip(1)):
        features += [seen, *((seen - end).norm(dim=-1, keepdim=True) for end in (seen[:, :1], seen[:, -1:]))]
    from_depot, distance = features[3], features[5]  # [R, n+2, 2 and 1]
    direction = from_depot / distance.where(distance > 0, 1.0)
    return [*features, direction, features[2][:, :1].expand_as(distance)]
