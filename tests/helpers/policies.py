"""Policies without a network, to test a problem."""

from __future__ import annotations

import torch

from gumbeldore.interfaces import Policy, Problem


class FixedPolicy(Policy):
    """The same logits in every state of a problem."""

    def __init__(self, of: Problem):
        super().__init__()
        self.actions = of.num_actions

    def forward(self, context, state):
        return torch.sin(torch.arange(self.actions(context), dtype=torch.float64) * 2.3).expand(len(state[0]), -1)
