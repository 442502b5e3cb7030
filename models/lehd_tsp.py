"""LEHD for the TSP: a light encoder of all nodes, a heavy decoder of what is left [Luo et al. 2023; GD, appendix C.2].

The encoder sees the whole instance, once per search. The decoder sees, at every step, the embeddings of the remaining
nodes, of the origin and of the destination. There is no positional encoding: the order of the nodes carries no meaning.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from gumbeldore.runtime.checked import check_counts
from models.layers import FullPrecisionLinear, ReZeroLayer, ReZeroLayers
from models.micro_batches import RowSize, in_micro_batches
from models.policy import TokenPolicy, at_nodes, check_weight, embeddings_of
from models.successor_loss import SuccessorLoss
from problems.tsp import State
from problems.tsp.instances import Instance


class Nodes(NamedTuple):
    embeddings: Tensor  # [R, N, width] of all nodes, which the encoder made


class LEHD(TokenPolicy):
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

    problem = "tsp"

    def __init__(self, width: int, layers: int, heads: int, feedforward: int, successor_loss: float):
        check_counts(width=width, layers=layers, feedforward=feedforward)
        check_weight("successor_loss", successor_loss)
        super().__init__()
        self.embed = FullPrecisionLinear(2, width)
        self.encoder = ReZeroLayer(width, heads, feedforward, learnt_scale=False)
        self.origin = nn.Linear(width, width)
        self.destination = nn.Linear(width, width)
        self.decoder = ReZeroLayers(layers, width, heads, feedforward, learnt_scale=False)
        self.head = FullPrecisionLinear(width, 1)
        self.successor_weight = successor_loss
        self.successor_loss = SuccessorLoss(width) if successor_loss else None

    def encode(self, instance: Instance) -> Nodes:
        """The embeddings of all nodes."""
        size = self._size_of(instance.coords.shape[1])
        return Nodes(in_micro_batches(lambda part: self.encoder(self.embed(part.coords)), size, instance))

    def row_size(self, context: Nodes, state: State) -> RowSize:
        return self._size_of(state.near.shape[1] + 2)

    def _size_of(self, tokens: int) -> RowSize:
        return RowSize(self.encoder.heads * tokens**2, tokens * self.embed.out_features)

    def tokens(self, context: Nodes, state: State) -> list[Tensor]:
        """The tokens [R, n+2, width] after all layers of the decoder."""
        nodes = torch.cat([state.origin[:, None], state.near, state.destination[:, None]], dim=1)
        x = embeddings_of(nodes, context.embeddings)
        x = torch.cat([self.origin(x[:, :1]), x[:, 1:-1], self.destination(x[:, -1:])], dim=1)
        return [self.decoder(x)]

    def logits(self, context: Nodes, state: State, x: Tensor) -> Tensor:
        """[R, N]; -inf on nodes that are not in view."""
        logits = self.head(x[:, 1:-1]).squeeze(-1).float()
        return at_nodes(logits, state.near, context.embeddings.shape[1])

    def auxiliary_loss(self, context: Nodes, state: State, tokens: list[Tensor], remaining_actions: Tensor) -> Tensor:
        """The weighted successor loss."""
        (x,) = tokens
        if self.successor_loss is None:
            return x.new_zeros(())
        return self.successor_weight * self.successor_loss(x, state, remaining_actions)
