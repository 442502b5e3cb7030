"""The auxiliary loss of the networks for the TSP: every node in view learns its successor in the expert's tour.

It is not in the papers (docs/decisions.md).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.policy import NO_TOKEN, places
from problems.tsp import State


class SuccessorLoss(nn.Module):
    """Every node in view points at its successor in the expert's tour: up to k + 1 decisions per example."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, state: State, remaining_actions: Tensor) -> Tensor:
        """Mean cross-entropy [] of the successors in view.

        Arguments:
            x: tokens [R, k+2, width] of the origin, the nodes of `state.view` and the destination
            remaining_actions: [R, n] the remaining nodes in the expert's order
        """
        # Tokens 0..k (all but the destination) choose among tokens 1..k+1 (all but the origin), not themselves.
        scores = (self.query(x[:, :-1]) @ self.key(x[:, 1:]).transpose(1, 2)).float() * x.shape[-1] ** -0.5
        itself = torch.ones_like(scores[0], dtype=torch.bool).tril(-1).triu(-1)
        place = places(state.view, remaining_actions)
        destination = state.view.shape[1]
        first, last = torch.zeros_like(place[:, :1]), torch.full_like(place[:, :1], destination)
        # The destination has no successor: what comes after nodes out of view is written there, and left out.
        token = (place + 1).masked_fill(place == NO_TOKEN, destination + 1)
        successor = torch.full_like(x[..., 0], NO_TOKEN, dtype=torch.int64)
        successor.scatter_(1, torch.cat([first, token], dim=1), torch.cat([place, last], dim=1))
        logits, target = scores.masked_fill(itself, -math.inf).flatten(0, 1), successor[:, :-1].flatten()
        return F.cross_entropy(logits, target, ignore_index=NO_TOKEN)
