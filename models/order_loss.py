"""The auxiliary loss of the network for the JSSP: which of two operations of a machine the expert schedules first.

It is not in the papers (docs/decisions.md).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from models.lookahead import JobShopContext
from problems.common.groups import ranks_of, sizes_of
from problems.jssp import State
from problems.jssp.state import places_of_view


class OrderLoss(nn.Module):
    """Of two operations of one machine, both in view, which one does the expert schedule first?"""

    def __init__(self, width: int):
        super().__init__()
        self.earlier, self.later = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor, context: JobShopContext, state: State, remaining_actions: Tensor) -> Tensor:
        """Mean cross-entropy [] of the pairs of each row, then of the rows; 0 for a row without pairs.

        Arguments:
            x: tokens [R, v, width] of the operations in view
            remaining_actions: [R, n] the expert's jobs
        """
        jobs, ops = context.times.shape[1:]
        # The operation that each decision schedules: the k-th time its job occurs, k on from next_op.
        op = state.next_op.gather(1, remaining_actions) + ranks_of(remaining_actions, sizes_of(remaining_actions, jobs))
        when = (remaining_actions * ops + op).argsort(dim=1)  # [R, n] when each remaining operation is scheduled
        order = when.gather(1, places_of_view(state))
        scores = (self.earlier(x) @ self.later(x).mT).float() * x.shape[-1] ** -0.5
        scores = scores - scores.mT
        machine = context.machine.gather(1, state.view)
        pairs = (machine[:, :, None] == machine[:, None, :]) & (order[:, :, None] < order[:, None, :])
        return ((F.softplus(-scores) * pairs).sum(dim=(1, 2)) / pairs.sum(dim=(1, 2)).clamp(min=1)).mean()
