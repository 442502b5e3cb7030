"""BQ for the CVRP: a transformer over what is left of the problem [Drakulic et al. 2023; GD, appendix D.3.2]."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.canonical_coordinates import CANONICAL_FEATURES, canonical_features
from models.layers import FullPrecisionLinear, ReZeroLayers
from models.policy import points_of
from models.route_loss import RouteLoss
from models.routing_policy import CVRPPolicy
from problems.cvrp import State
from problems.cvrp.instances import Instance


class BQ(CVRPPolicy):
    """Logits of the next customer, directly or via the depot, from [origin, remaining customers, depot].

    The network is fed with the customers in `State.view` alone, and there is no positional encoding. Each token has the
    place of its node, the demand of its node and the capacity left in the vehicle, both in units of the capacity.

    Arguments:
        width: of the embeddings; a multiple of heads
        layers: of the transformer
        heads, feedforward: of every layer
        canonical_coordinates: express the nodes in canonical coordinates, as seen from the origin and from the depot;
            and add two features: by how much the remaining demand exceeds the capacity left, and what the last vehicle
            will have to spare of it. The policy does not change when the instance is moved, rotated, mirrored or scaled
            (at the first decision, in the depot: moved or scaled). Not in the paper; it learns from fewer samples
            (docs/decisions.md).
        route_loss: weight of the auxiliary loss: every node also points at its two neighbours and at all nodes of its
            route in the expert's solution, which teaches far more decisions per example than one; after half of the
            layers as well as after all layers. 0 leaves it out, as the paper does.
    """

    def __init__(
        self, width: int, layers: int, heads: int, feedforward: int, canonical_coordinates: bool, route_loss: float
    ):
        super().__init__(width, layers, heads, feedforward, "route_loss", route_loss)
        self.canonical_coordinates = canonical_coordinates
        self.embed = FullPrecisionLinear(CANONICAL_FEATURES + 4 if canonical_coordinates else 4, width)
        self.origin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.depot = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = ReZeroLayers(layers, width, heads, feedforward)
        self.head = FullPrecisionLinear(width, 2)
        self.route_loss = RouteLoss(width) if route_loss else None

    def tokens(self, context: Instance, state: State) -> list[Tensor]:
        """The tokens [R, k+2, width] after half of the layers, and after all layers."""
        return self.layers.intermediate_outputs(self.embedded(context, state))

    def embedded(self, context: Instance, state: State) -> Tensor:
        """The tokens [R, k+2, width] before the first layer."""
        x = self.embed(self.features(context, state, self.nodes(state)))
        return torch.cat([x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.depot], dim=1)

    def features(self, context: Instance, state: State, nodes: Tensor) -> Tensor:
        """What the network is told [R, k+2, F] of each of the nodes [R, k+2]."""
        points = points_of(nodes, context.coords)  # [R, k+2, 2]
        capacity = context.capacity[:, None].float()
        demand = (context.demands.gather(1, nodes) / capacity)[..., None]
        left = (state.left[:, None] / capacity)[..., None].expand_as(demand)
        features = [points, demand, left]
        if self.canonical_coordinates:
            ahead = (context.demands.gather(1, state.remaining).sum(dim=1) - state.left)[:, None] / capacity  # [R, 1]
            spare = torch.cat([ahead, ahead.ceil() - ahead], dim=1)[:, None].expand(-1, nodes.shape[1], -1)
            features = [*canonical_features(points), demand, left, spare]
        return torch.cat(features, dim=2)
