"""LEHD for the TSP: a light encoder of all nodes, a heavy decoder of what is left [Luo et al. 2023; GD, appendix C.2].

The encoder sees the whole instance, once per search. The decoder sees, at every step, the embeddings of the remaining
nodes, of the origin and of the destination. There is no positional encoding: the order of the nodes carries no meaning.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.layers import FullPrecisionLinear, ReZeroLayer, ReZeroLayers
from models.micro_batches import in_micro_batches
from models.policy import embeddings_of
from models.routing_policy import TSPPolicy
from models.successor_loss import SuccessorLoss
from problems.tsp import State
from problems.tsp.instances import Instance


class Nodes(NamedTuple):
    embeddings: Tensor  # [R, N, width] of all nodes, which the encoder made


class LEHD(TSPPolicy):
    """Logits of the next node from the embeddings of [origin, nodes in view, destination].

    The embeddings of the origin and of the destination each pass a linear map of their own. The layers have no
    normalisation.

    Arguments:
        width: of the embeddings; a multiple of heads
        layers: of the decoder; the encoder has one
        heads, feedforward: of every layer
        successor_loss: weight of the auxiliary loss: every node also points at its successor in the expert's tour,
            which teaches n + 1 decisions per example instead of one. 0 leaves it out, as the papers do.
    """

    def __init__(self, width: int, layers: int, heads: int, feedforward: int, successor_loss: float):
        super().__init__(width, layers, heads, feedforward, "successor_loss", successor_loss)
        self.embed = FullPrecisionLinear(2, width)
        self.encoder = ReZeroLayer(width, heads, feedforward, learnt_scale=False)
        self.origin = nn.Linear(width, width)
        self.destination = nn.Linear(width, width)
        self.decoder = ReZeroLayers(layers, width, heads, feedforward, learnt_scale=False)
        self.head = FullPrecisionLinear(width, 1)
        self.successor_loss = SuccessorLoss(width) if successor_loss else None

    def encode(self, instance: Instance) -> Nodes:
        """The embeddings of all nodes."""
        size = self.size_of(instance.coords.shape[1])
        return Nodes(in_micro_batches(lambda part: self.encoder(self.embed(part.coords)), size, instance))

    def tokens(self, context: Nodes, state: State) -> list[Tensor]:
        """The tokens [R, k+2, width] after all layers of the decoder."""
        x = embeddings_of(self.nodes(state), context.embeddings)
        x = torch.cat([self.origin(x[:, :1]), x[:, 1:-1], self.destination(x[:, -1:])], dim=1)
        return [self.decoder(x)]
