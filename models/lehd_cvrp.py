"""LEHD for the CVRP: a light encoder of all nodes, a heavy decoder of what is left [Luo et al. 2023].

The encoder sees the whole instance, once per search. The decoder sees, at every step, the embeddings of the remaining
customers, of the origin and of the depot, and the capacity left in the vehicle.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.layers import FullPrecisionLinear, ReZeroLayer, ReZeroLayers
from models.micro_batches import in_micro_batches
from models.policy import embeddings_of
from models.route_loss import RouteLoss
from models.routing_policy import CVRPPolicy
from problems.cvrp import State
from problems.cvrp.instances import Instance


class Nodes(NamedTuple):
    embeddings: Tensor  # [R, N+1, width] of all nodes, which the encoder made; node 0 is the depot
    capacity: Tensor  # [R] int64 of every vehicle


class LEHD(CVRPPolicy):
    """Logits of the next customer, directly or via the depot, from the embeddings of [origin, customers, depot].

    The encoder sees place and demand of every node, the demand in units of the capacity. A linear map tells it the
    depot, another one tells the decoder the origin. The embedding of the capacity left is added to all tokens of the
    decoder, which is fed with the customers in `State.view` alone. The layers have no normalisation.

    Arguments:
        width: of the embeddings; a multiple of heads
        layers: of the decoder; the encoder has one
        heads, feedforward: of every layer
        route_loss: weight of the auxiliary loss: every node also points at its two neighbours and at all nodes of its
            route in the expert's solution, after half of the decoder's layers as well as after all of them. 0 leaves it
            out, as the papers do.
    """

    def __init__(self, width: int, layers: int, heads: int, feedforward: int, route_loss: float):
        super().__init__(width, layers, heads, feedforward, "route_loss", route_loss)
        self.embed = FullPrecisionLinear(3, width)
        self.depot = nn.Linear(width, width)
        self.encoder = ReZeroLayer(width, heads, feedforward, learnt_scale=False)
        self.origin = nn.Linear(width, width)
        self.capacity_left = FullPrecisionLinear(1, width)
        self.decoder = ReZeroLayers(layers, width, heads, feedforward, learnt_scale=False)
        self.head = FullPrecisionLinear(width, 2)
        self.route_loss = RouteLoss(width) if route_loss else None

    def encode(self, instance: Instance) -> Nodes:
        """The embeddings of all nodes, and the capacity, in units of which the capacity left counts."""
        size = self.size_of(instance.coords.shape[1])
        return Nodes(in_micro_batches(self._embeddings, size, instance), instance.capacity)

    def _embeddings(self, instance: Instance) -> Tensor:
        demand = (instance.demands / instance.capacity[:, None].float())[..., None]
        x = self.embed(torch.cat([instance.coords, demand], dim=2))
        return self.encoder(torch.cat([self.depot(x[:, :1]), x[:, 1:]], dim=1))

    def tokens(self, context: Nodes, state: State) -> list[Tensor]:
        """The tokens [R, k+2, width] after half of the decoder's layers, and after all of them."""
        return self.decoder.intermediate_outputs(self.embedded(context, state))

    def embedded(self, context: Nodes, state: State) -> Tensor:
        """The tokens [R, k+2, width] before the first layer of the decoder."""
        x = embeddings_of(self.nodes(state), context.embeddings)
        left = (state.left / context.capacity.float())[:, None, None].to(x.dtype)
        return torch.cat([self.origin(x[:, :1]), x[:, 1:]], dim=1) + self.capacity_left(left)
