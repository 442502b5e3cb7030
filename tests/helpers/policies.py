"""Policies without a network, to test a problem."""

from __future__ import annotations

import torch

from gumbeldore.interfaces import Policy


class FixedRoutePolicy(Policy):
    """The same logits everywhere; no network is needed to test a problem."""

    def forward(self, context, state):
        num_actions = 2 * (context.coords.shape[1] - 1)
        return torch.sin(torch.arange(num_actions, dtype=torch.float64) * 2.3).expand(len(state.origin), -1)


class FixedJobPolicy(Policy):
    """The same logits everywhere; no network is needed to test a problem."""

    def forward(self, context, state):
        jobs = state.next_op.shape[1]
        return torch.sin(torch.arange(jobs, dtype=torch.float64) * 2.3).expand(len(state.next_op), -1)
