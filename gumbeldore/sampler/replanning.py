"""Take a step and reconsider: the root of the search moves along the best solution so far [TASAR]."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.sampler.beam import Leaves, SearchContext


class Incumbent(NamedTuple):
    """The best solution so far of each beam: the first of the cheapest."""

    cost: Tensor  # [B] float64
    actions: Tensor  # [B, T]
    node: Tensor  # [T+1, B] trie slots along it

    def improved(self, leaves: Leaves, actions: Tensor, cost: Tensor, depth: int) -> Incumbent:
        """The better one of this solution and those of a round.

        Arguments:
            leaves: of the round
            actions: [B, K, T] all decisions of their solutions
            cost: [B, K] of these
            depth: of the round's root; the solutions so far have passed through it
        """
        lowest, place = cost.masked_fill(~leaves.valid, math.inf).min(dim=1)
        better = lowest < self.cost
        path = leaves.path.gather(2, place.expand(len(leaves.path), -1)[..., None])  # beam positions along it
        node = leaves.node.gather(2, path).squeeze(2)
        node = torch.cat([self.node[:depth], node.where(better, self.node[depth:])])
        theirs = actions[torch.arange(len(place), device=place.device), place]
        return Incumbent(lowest.where(better, self.cost), theirs.where(better[:, None], self.actions), node)


def no_incumbent(context: SearchContext) -> Incumbent:
    """Any solution is better than this one."""
    device = context.root.device
    cost = torch.full((context.batch,), math.inf, dtype=torch.float64, device=device)
    actions = torch.zeros(context.batch, context.horizon, dtype=torch.int64, device=device)
    node = torch.zeros(context.horizon + 1, context.batch, dtype=torch.int64, device=device)
    return Incumbent(cost, actions, node)


def committed(context: SearchContext, incumbent: Incumbent, depth: int) -> SearchContext:
    """The search below the node of the incumbent at `depth`, whose decisions so far are not reconsidered."""
    prefix = incumbent.actions[:, :depth].repeat_interleave(context.width, dim=0)  # [B*K, depth]
    return context._replace(
        root=incumbent.node[depth],
        state=context.problem.replay(context.instance, prefix),
        complete=lambda decisions: torch.cat([prefix, decisions], dim=1),
        horizon=incumbent.actions.shape[1] - depth,
    )
