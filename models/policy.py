"""What the policies of this folder share: tokens of a state, logits read off the tokens, and nodes in view."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gumbeldore.interfaces import Policy
from models.micro_batches import RowSize, in_micro_batches

NO_TOKEN = -1  # the place of a node that has no token: what would point at it is not learnt


class TokenPolicy(Policy):
    """A policy in two steps: a transformer makes tokens of the state, and the logits are read off the last tokens.

    A subclass defines `tokens`, `logits` and `row_size`; `auxiliary_loss` and its weight where the tokens are to learn
    more than the next decision. By default the context is the instance: embedding a few numbers is cheaper than
    gathering their embeddings.
    """

    loss_weight = 0.0  # of the auxiliary loss; 0 leaves it out

    @abstractmethod
    def tokens(self, context: Any, state: Any) -> list[Tensor]:
        """Outputs [R, n, width] of the transformer's layers; the last one is the output of all layers."""

    @abstractmethod
    def logits(self, context: Any, state: Any, x: Tensor) -> Tensor:
        """Logits [R, A] from the last tokens x [R, n, width]."""

    @abstractmethod
    def row_size(self, context: Any, state: Any) -> RowSize:
        """What one row takes in a forward pass."""

    def auxiliary_loss(self, context: Any, state: Any, tokens: list[Tensor], remaining_actions: Tensor) -> Tensor:
        """Loss [] of what the expert's remaining actions [R, n] teach beyond the next decision, not yet weighted."""
        raise NotImplementedError(f"{type(self).__name__} weighs an auxiliary loss, but does not define auxiliary_loss")

    def forward(self, context: Any, state: Any) -> Tensor:
        """Logits [R, A]."""
        return in_micro_batches(self.forward_in_one_pass, self.row_size(context, state), context, state)

    def forward_in_one_pass(self, context: Any, state: Any) -> Tensor:
        """`forward` without micro-batches."""
        return self.logits(context, state, self.tokens(context, state)[-1])

    def with_auxiliary_loss(self, context: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [R, A] and the weighted auxiliary loss [], from the same tokens."""
        tokens = self.tokens(context, state)
        loss = tokens[-1].new_zeros(())
        if self.loss_weight:
            loss = self.loss_weight * self.auxiliary_loss(context, state, tokens, remaining_actions)
        return self.logits(context, state, tokens[-1]), loss


def at_nodes(logits: Tensor, nodes: Tensor, count: int) -> Tensor:
    """Logits [..., n] of the nodes [..., n] among the logits [..., count] of all nodes; the others are -inf."""
    nowhere = logits.new_full((*logits.shape[:-1], count), -math.inf)
    return nowhere.scatter(-1, nodes, logits)


def embeddings_of(nodes: Tensor, embeddings: Tensor) -> Tensor:
    """The embeddings [R, n, width] of the nodes [R, n] of each row, out of those [R, N, width] of all nodes."""
    rows, count, _ = embeddings.shape
    return F.embedding(nodes + count * torch.arange(rows, device=nodes.device)[:, None], embeddings.flatten(0, 1))


def points_of(nodes: Tensor, coords: Tensor) -> Tensor:
    """The points [R, n, 2] of the nodes [R, n] of each row, out of the coordinates [R, N, 2] of all nodes."""
    return coords.gather(1, nodes[..., None].expand(-1, -1, 2))


def places(view: Tensor, nodes: Tensor) -> Tensor:
    """The place [R, n] of each of the nodes [R, n] among those in view, view [R, k] ascending, or NO_TOKEN."""
    place = torch.searchsorted(view.contiguous(), nodes.contiguous()).clamp(max=view.shape[1] - 1)
    return place.masked_fill(view.gather(1, place) != nodes, NO_TOKEN)


def check_weight(name: str, weight: float) -> None:
    """Raises ValueError that names the loss if its weight is negative."""
    if weight < 0:
        raise ValueError(f"{name} must be at least 0, got {weight}")
