"""What the networks for the TSP share, and those for the CVRP: logits and auxiliary losses, sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gumbeldore.runtime.checked import check_counts
from models.layers import FullPrecisionLinear
from models.micro_batches import RowSize
from models.policy import TokenPolicy, at_nodes, check_weight
from models.route_loss import RouteLoss
from models.successor_loss import SuccessorLoss
from problems import cvrp, tsp


class RoutingPolicy(TokenPolicy):
    """Tokens are those of the origin, the nodes in view, and the end of the way.

    The first field of a context has an entry [R, N, ...] for each node.

    Arguments:
        name, weight: of the auxiliary loss; with a weight of 0 there is none
    """

    head: FullPrecisionLinear

    def __init__(self, width: int, layers: int, heads: int, feedforward: int, name: str, weight: float):
        check_counts(width=width, layers=layers, feedforward=feedforward)
        check_weight(name, weight)
        super().__init__()
        self.width, self.heads, self.loss_weight = width, heads, weight

    def row_size(self, context: Any, state: Any) -> RowSize:
        return self.size_of(state.view.shape[1] + 2)

    def size_of(self, tokens: int) -> RowSize:
        """What a row of so many tokens takes."""
        return RowSize(self.heads * tokens**2, tokens * self.width)


class TSPPolicy(RoutingPolicy):
    """Actions are the nodes; the auxiliary loss is that of their successors."""

    problem = "tsp"
    successor_loss: SuccessorLoss | None

    def nodes(self, state: tsp.State) -> Tensor:
        """The node of each token [R, k+2]."""
        return torch.cat([state.origin[:, None], state.view, state.destination[:, None]], dim=1)

    def logits(self, context: Any, state: tsp.State, x: Tensor) -> Tensor:
        """[R, N]; -inf on nodes that are not in view."""
        return at_nodes(self.head(x[:, 1:-1]).squeeze(-1).float(), state.view, context[0].shape[1])

    def auxiliary_loss(self, context: Any, state: tsp.State, tokens: list[Tensor], remaining_actions: Tensor) -> Tensor:
        assert self.successor_loss is not None  # its weight is not 0
        return self.successor_loss(tokens[-1], state, remaining_actions)


class CVRPPolicy(RoutingPolicy):
    """Actions are the customers, directly or via the depot; the auxiliary loss is that of the routes."""

    problem = "cvrp"
    route_loss: RouteLoss | None

    def nodes(self, state: cvrp.State) -> Tensor:
        """The node of each token [R, k+2]; the end of the way is the depot."""
        return torch.cat([state.origin[:, None], state.view, torch.zeros_like(state.origin[:, None])], dim=1)

    def logits(self, context: Any, state: cvrp.State, x: Tensor) -> Tensor:
        """[R, 2N]; -inf on customers that are not in `State.view`."""
        logits = self.head(x[:, 1:-1]).float().mT  # [R, 2, k]
        customers = (state.view - 1)[:, None].expand_as(logits)
        return at_nodes(logits, customers, context[0].shape[1] - 1).flatten(1)

    def auxiliary_loss(
        self, context: Any, state: cvrp.State, tokens: list[Tensor], remaining_actions: Tensor
    ) -> Tensor:
        assert self.route_loss is not None  # its weight is not 0
        return self.route_loss(tokens, state, remaining_actions, context[0].shape[1] - 1)
