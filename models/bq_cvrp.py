"""BQ for the CVRP: a transformer over what is left of the problem [Drakulic et al. 2023; GD, appendix C.2]."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.canonical_coordinates import to_canonical
from models.layers import ReZeroLayers, check_sizes
from models.micro_batches import RowSize
from models.policy import TokenPolicy
from models.route_loss import RoutePointers, Routes
from problems.cvrp import State
from problems.cvrp.instances import Instance


class BQ(TokenPolicy):
    """Logits of the next customer, directly or via the depot, from [origin, remaining customers, depot].

    Only the customers looked at (`State.near`) are fed, and there is no positional encoding. Each token knows its
    place, its demand and the capacity left, both in units of the capacity.

    Arguments:
        width: of the embeddings; a multiple of heads
        layers, heads, feedforward: of the transformer
        canonical_coordinates: express the nodes as seen from the origin and from the depot, and give how much more
            than the vehicle has left is demanded and what of it the last vehicle will have to spare. The policy does
            not change when the instance is moved, rotated, mirrored or scaled (at the first decision, in the depot:
            moved or scaled). Not in the paper; it learns from fewer samples (docs/decisions.md).
        route_loss: weight of a further training loss: in the expert's solution, every node also points at its two
            neighbours and at all nodes of its route, which teaches far more decisions per example than one; after half
            of the layers as well as in the end. 0 leaves it out, as the paper does.
    """

    problem = "cvrp"

    def __init__(
        self, width: int, layers: int, heads: int, feedforward: int, canonical_coordinates: bool, route_loss: float
    ):
        check_sizes(width=width, layers=layers, feedforward=feedforward)
        super().__init__(route_loss=route_loss)
        self.canonical_coordinates = canonical_coordinates
        self.embed = nn.Linear(15 if canonical_coordinates else 4, width)
        self.origin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.depot = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = ReZeroLayers(layers, width, heads, feedforward)
        self.head = nn.Linear(width, 2)
        if route_loss:
            self.pointers = nn.ModuleList(RoutePointers(width) for _ in range(2))

    def row_size(self, context: Instance, state: State) -> RowSize:
        tokens = state.near.shape[1] + 2
        return RowSize(self.layers[0].heads * tokens**2, tokens * len(self.origin))

    def tokens(self, context: Instance, state: State) -> list[Tensor]:
        """The transformed tokens [R, n+2, width], halfway and in the end."""
        nodes = torch.cat([state.origin[:, None], state.near, torch.zeros_like(state.origin[:, None])], dim=1)
        points = context.coords.gather(1, nodes[..., None].expand(-1, -1, 2))  # [R, n+2, 2]
        capacity = context.capacity[:, None].float()
        demand = (context.demands.gather(1, nodes) / capacity)[..., None]
        left = (state.left[:, None] / capacity)[..., None].expand_as(demand)
        features = [points, demand, left]
        if self.canonical_coordinates:
            ahead = (context.demands.gather(1, state.remaining).sum(dim=1) - state.left)[:, None] / capacity  # [R, 1]
            spare = torch.cat([ahead, ahead.ceil() - ahead], dim=1)[:, None].expand(-1, nodes.shape[1], -1)
            features = [*in_both_frames(points), demand, left, spare]
        with torch.autocast(points.device.type, enabled=False):
            x = self.embed(torch.cat(features, dim=2))  # float32: bf16 coordinates would blur neighbours
        x = torch.cat([x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.depot], dim=1)
        return self.layers.halves(x)

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
    for seen in (to_canonical(points), to_canonical(points.flip(1)).flip(1)):
        features += [seen, *((seen - end).norm(dim=-1, keepdim=True) for end in (seen[:, :1], seen[:, -1:]))]
    from_depot, distance = features[3], features[5]  # [R, n+2, 2 and 1]
    direction = from_depot / distance.where(distance > 0, 1.0)
    return [*features, direction, features[2][:, :1].expand_as(distance)]
