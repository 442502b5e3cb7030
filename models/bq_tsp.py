"""BQ for the TSP: a transformer over what is left of the problem [Drakulic et al. 2023; GD, appendix D.2.2].

A partial tour is a smaller instance: the remaining nodes, an origin and a destination. The network is fed with these
nodes alone, so the sequence shrinks at every step. There is no positional encoding: the order of the nodes carries no
meaning.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.canonical_coordinates import to_canonical
from models.layers import FullPrecisionLinear, ReZeroLayers
from models.policy import points_of
from models.routing_policy import TSPPolicy
from models.successor_loss import SuccessorLoss
from problems.tsp import State
from problems.tsp.instances import Instance


class BQ(TSPPolicy):
    """Logits of the next node from [origin, nodes in view, destination].

    Arguments:
        width: of the embeddings; a multiple of heads
        layers: of the transformer
        heads, feedforward: of every layer
        canonical_coordinates: express the nodes in canonical coordinates of the sub-problem, so that the policy does
            not change when the instance is moved, rotated, mirrored or scaled (at the first decision, where origin and
            destination coincide: moved or scaled). Not in the paper; it learns from a fraction of the samples
            (docs/decisions.md).
        successor_loss: weight of the auxiliary loss: every node also points at its successor in the expert's tour,
            which teaches n + 1 decisions per example instead of one. 0 leaves it out, as the paper does.
    """

    def __init__(
        self, width: int, layers: int, heads: int, feedforward: int, canonical_coordinates: bool, successor_loss: float
    ):
        super().__init__(width, layers, heads, feedforward, "successor_loss", successor_loss)
        self.canonical_coordinates = canonical_coordinates
        self.embed = FullPrecisionLinear(2, width)
        self.origin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.destination = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = ReZeroLayers(layers, width, heads, feedforward)
        self.head = FullPrecisionLinear(width, 1)
        self.successor_loss = SuccessorLoss(width) if successor_loss else None

    def tokens(self, context: Instance, state: State) -> list[Tensor]:
        """The tokens [R, k+2, width] after all layers."""
        return [self.layers(self.embedded(context, state))]

    def embedded(self, context: Instance, state: State) -> Tensor:
        """The tokens [R, k+2, width] before the first layer."""
        x = self.embed(self.features(points_of(self.nodes(state), context.coords)))
        return torch.cat([x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.destination], dim=1)

    def features(self, points: Tensor) -> Tensor:
        """What the network is told [R, k+2, F] of each of the points [R, k+2, 2]."""
        return to_canonical(points) if self.canonical_coordinates else points
