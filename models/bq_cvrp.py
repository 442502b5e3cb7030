"""BQ for the CVRP: a transformer over what is left of the problem [Drakulic et al. 2023; GD, appendix C.2]."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models.blocks import ReZeroLayers, check_sizes
from models.frame import in_own_frame
from models.parts import RowSize
from models.policy import TokenPolicy
from models.route_loss import RoutePointers, Routes
from models.savings import TABLES, checked_shapes, loads_in, plan_of
from problems.cvrp import State
from problems.cvrp_types import Instance


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
            neighbours and at all nodes of its route, which teaches far more decisions per example than one; after half
            of the layers as well as in the end. 0 leaves it out, as the paper does.
        savings: tell each node its neighbours in the routes that the savings heuristic would make of the rest, how
            often they lead it to the depot, and whether the vehicle would serve it, and serve it next; and of its
            route the load and what the nodes are like on average. Of the plans of so many route shapes, or of those
            listed (see `savings_plan`), the shortest is told; without any, none. Not in the paper; a network takes long
            to learn to plan that far (docs/log.md).
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
        savings: int | Sequence[float | Sequence[float]] = 0,
    ):
        check_sizes(width=width, layers=layers, feedforward=feedforward)
        super().__init__(route_loss=route_loss)
        self.own_frame = own_frame
        self.register_buffer("shapes", checked_shapes(savings), persistent=False)
        features = 15 if own_frame else 4
        self.embed = nn.Linear(3 * features + 4 if len(self.shapes) else features, width)
        self.origin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.depot = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = ReZeroLayers(layers, width, heads, feedforward)
        self.head = nn.Linear(width, 2)
        if route_loss:
            self.pointers = nn.ModuleList(RoutePointers(width) for _ in range(2))

    def row_size(self, context: Instance, state: State) -> RowSize:
        tokens = state.near.shape[1] + 2
        tables = self.layers[0].heads + TABLES * len(self.shapes)
        return RowSize(tables * tokens**2, tokens * len(self.origin))

    def tokens(self, context: Instance, state: State) -> list[Tensor]:
        """The transformed tokens [R, n+2, width], halfway and in the end."""
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
                features = torch.cat([features, self._planned(context, state, points, features)], dim=2)
            x = self.embed(features)
        x = torch.cat([x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.depot], dim=1)
        return self.layers.halves(x)

    def _planned(self, context: Instance, state: State, points: Tensor, features: Tensor) -> Tensor:
        """What the savings heuristic's routes tell of each node [R, n+2, ...]: see `savings`."""
        plan = plan_of(context, state, points, self.shapes)
        rows, tokens, _ = points.shape
        first = tokens * torch.arange(rows, device=points.device)[:, None]  # of each row
        before, after, route = ((first + token).flatten() for token in (*plan.links.unbind(dim=2), plan.route))
        flat = features.flatten(0, 1)
        around = flat.index_select(0, before) + flat.index_select(0, after)
        loads = nn.functional.pad(loads_in(context, state) / context.capacity[:, None], (0, 1)).view(-1, 1)
        each = torch.cat([flat, loads, torch.ones_like(loads)], dim=1)
        total = torch.zeros_like(each).index_add_(0, route, each).index_select(0, route)
        numbers, load, count = total.split([flat.shape[1], 1, 1], dim=1)  # of each one's route
        flags = (plan.links == tokens - 1).sum(dim=2), plan.route == 0, (plan.links == 0).any(dim=2)
        told = around, numbers / count, load, torch.stack(flags, dim=2).flatten(0, 1)
        return torch.cat(told, dim=1).view(rows, tokens, -1)

    def logits(self, context: Instance, state: State, x: Tensor) -> Tensor:
        """[R, 2N]; -inf on customers that are not looked at."""
        rows, num_nodes = context.demands.shape
        logits = self.head(x[:, 1:-1]).float().mT  # [R, 2, n]
        everywhere = torch.full((rows, 2, num_nodes - 1), -math.inf, device=logits.device)
        return everywhere.scatter(2, (state.near - 1)[:, None].expand_as(logits), logits).flatten(1)

    def further_loss(self, context: Instance, state: State, tokens: list[Tensor], rest: Tensor) -> Tensor:
        """The route loss of the tokens halfway and in the end, by pointers of their own."""
        routes = Routes.of(state, rest, context.coords.shape[1] - 1)
        return sum(pointers.loss(x, routes) for pointers, x in zip(self.pointers, tokens, strict=True))


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
