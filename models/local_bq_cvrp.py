"""BQ for the CVRP with a local view: the customers near the origin, as they look from there."""

from __future__ import annotations

import torch
from torch import Tensor

from models.bq_cvrp import BQ
from models.layers import FullPrecisionLinear
from models.local_view import REACH, VIEW_FEATURES, View, view_features
from models.policy import points_of
from problems.cvrp import State
from problems.cvrp.instances import Instance

MOST_AHEAD = 3.0  # capacities: whether still more demand remains makes no difference


class LocalBQ(BQ):
    """Logits of the next customer, directly or via the depot, from [origin, customers in view, depot].

    For `problem.nearest`. The customers in view decide the scale, so that a view looks alike in instances of all sizes.
    The depot, which may be far away, is seen by its direction and distance.
    The arguments are those of BQ, whose canonical coordinates it always has.
    """

    def __init__(self, width: int, layers: int, heads: int, feedforward: int, route_loss: float):
        super().__init__(width, layers, heads, feedforward, canonical_coordinates=True, route_loss=route_loss)
        self.embed = FullPrecisionLinear(VIEW_FEATURES + 9, width)

    def features(self, context: Instance, state: State, nodes: Tensor) -> Tensor:
        """Of each node its place in the view, how it lies to the depot, and its demand.

        To the depot: by how much the node is farther from the depot than the origin, its direction and its distance.

        Beside these, the same for all nodes: the capacity left in the vehicle; by how much the remaining demand exceeds
        it, up to MOST_AHEAD; what the last vehicle will have to spare; and the distance of the depot.
        """
        points = points_of(nodes, context.coords)  # [R, k+2, 2]
        placed = View.of(points).place(points)
        from_depot = (placed - placed[:, -1:]).norm(dim=-1, keepdim=True)  # [R, k+2, 1]
        direction = (placed - placed[:, -1:]) / from_depot.where(from_depot > 0, 1.0)
        farther = (from_depot - from_depot[:, :1]).clamp(-REACH, REACH)
        capacity = context.capacity[:, None].float()
        demand = (context.demands.gather(1, nodes) / capacity)[..., None]
        left = state.left[:, None] / capacity
        ahead = context.demands.gather(1, state.remaining).sum(dim=1, keepdim=True) / capacity - left
        whole = [left, ahead.clamp(max=MOST_AHEAD), ahead.ceil() - ahead, from_depot[:, 0].log1p()]
        whole = torch.cat(whole, dim=1)[:, None].expand(-1, nodes.shape[1], -1)
        return torch.cat([view_features(placed), farther, direction, from_depot.log1p(), demand, whole], dim=2)
