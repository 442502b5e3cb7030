"""Take a step and reconsider: the root of the rounds moves along the best solution so far [TASAR]."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.sampler.beam import Leaves, SearchContext
from gumbeldore.sampler.config import SearchConfig
from gumbeldore.sampler.solutions import Round


class Incumbent(NamedTuple):
    """The best solution so far of each beam: the first of the cheapest."""

    cost: Tensor  # [B] float64
    actions: Tensor  # [B, T]
    node: Tensor  # [T+1, B] trie slots along it


class Roots:
    """The roots of the rounds, one after the other; without `replan_steps` the first one is the only one.

    Each root has `num_rounds` rounds. Until a deadline, the time left is shared out among the roots that are left.

    Arguments:
        context: the search from the first root
    """

    def __init__(self, context: SearchContext, config: SearchConfig):
        self.config, self.horizon = config, context.horizon
        self.steps = config.replan_steps or context.horizon
        cost = torch.full((context.batch,), math.inf, dtype=torch.float64, device=context.root.device)
        actions = context.root.new_zeros(context.batch, context.horizon)
        self.incumbent = Incumbent(cost, actions, context.root.new_zeros(context.horizon + 1, context.batch))
        self._begin(context, depth=0)

    def _begin(self, context: SearchContext, depth: int) -> None:
        self.context = context  # the search from the present root
        self.depth = depth  # of it
        self.rounds = 0  # from it
        self.until = math.inf  # when its time is over
        if context.deadline < math.inf:
            now = time.monotonic()
            self.until = now + (context.deadline - now) / math.ceil(context.horizon / self.steps)

    def add(self, found: Round, leaves: Leaves) -> None:
        """One more round from the present root, with its leaves."""
        self.rounds += 1
        if self.config.replan_steps is None:
            return
        cost, place = found.cost.masked_fill(~leaves.valid, math.inf).min(dim=1)
        better = cost < self.incumbent.cost
        beam = leaves.path.gather(2, place.expand(len(leaves.path), -1)[..., None])  # positions along the best leaf
        node = leaves.node.gather(2, beam).squeeze(2).where(better, self.incumbent.node[self.depth :])
        actions = found.actions[torch.arange(len(place), device=place.device), place]
        self.incumbent = Incumbent(
            cost.where(better, self.incumbent.cost),
            actions.where(better[:, None], self.incumbent.actions),
            torch.cat([self.incumbent.node[: self.depth], node]),  # the incumbent passes through the root
        )

    @property
    def finished(self) -> bool:
        """Whether the present root has had its rounds."""
        return time.monotonic() >= self.until if self.config.anytime else self.rounds >= self.config.num_rounds

    @property
    def last(self) -> bool:
        """Whether there is no further root."""
        return self.depth + self.steps >= self.horizon

    def move(self) -> None:
        """Commit to the next decisions of the incumbent: the node that they lead to is the root from now on."""
        depth, context = self.depth + self.steps, self.context
        prefix = self.incumbent.actions[:, :depth].repeat_interleave(context.width, dim=0)  # [B*K, depth]
        context = context._replace(
            root=self.incumbent.node[depth],
            state=context.problem.replay(context.instance, prefix),
            complete=lambda decisions: torch.cat([prefix, decisions], dim=1),
            horizon=self.horizon - depth,
        )
        self._begin(context, depth)
