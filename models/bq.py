"""BQ for the TSP: a transformer over what is left of the problem [Drakulic et al. 2023; GD, appendix C.2].

A partial tour is the instance of its remaining nodes, with an origin and a destination. Only these are fed, so the
sequence shrinks at every step, and there is no positional encoding: the order of the nodes carries no meaning.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from models.blocks import ReZeroLayer
from problems.tsp import Instance, State

ATTENTION_BUDGET = 2**27  # attention scores held at once while sampling; larger batches go through in parts


class BQ(nn.Module):
    """Logits of the next node from [origin, remaining nodes, destination].

    Arguments:
        width: of the embeddings; a multiple of heads
        layers, heads, feedforward: of the transformer
    """

    def __init__(self, width: int, layers: int, heads: int, feedforward: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.embed = nn.Linear(2, width)
        self.origin = nn.Parameter(torch.randn(width) * width**-0.5)
        self.destination = nn.Parameter(torch.randn(width) * width**-0.5)
        self.layers = nn.ModuleList([ReZeroLayer(width, heads, feedforward) for _ in range(layers)])
        self.head = nn.Linear(width, 1)

    def encode(self, instance: Instance) -> Instance:
        """Nothing is worth keeping: the embedding of coordinates is cheaper to compute than to gather."""
        return instance

    def forward(self, context: Instance, state: State) -> Tensor:
        """Logits [R, N]; -inf on nodes that are not remaining."""
        rows, n = state.remaining.shape
        part = max(1, ATTENTION_BUDGET // (self.layers[0].heads * (n + 2) ** 2))
        if rows > part and not torch.is_grad_enabled():
            pieces = [slice(first, first + part) for first in range(0, rows, part)]
            return torch.cat([self(Instance(context.coords[p]), State(*(x[p] for x in state))) for p in pieces])

        nodes = torch.cat([state.origin[:, None], state.remaining, state.destination[:, None]], dim=1)
        x = self.embed(context.coords.gather(1, nodes[..., None].expand(-1, -1, 2)))  # [R, n+2, width]
        ends = torch.stack([self.origin, self.destination]).to(x.dtype)  # of the first and of the last token
        x = torch.cat([x[:, :1] + ends[0], x[:, 1:-1], x[:, -1:] + ends[1]], dim=1)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x[:, 1:-1]).squeeze(-1).float()
        everywhere = torch.full(context.coords.shape[:2], -math.inf, device=logits.device)
        return everywhere.scatter(1, state.remaining, logits)
