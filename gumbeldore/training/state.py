"""All that changes during training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.optimizer import Optimizers
from gumbeldore.training.validation import Quality


@dataclass
class TrainState:
    """All that changes during training; `state_dict` and the best weights are everything needed to go on."""

    policy: nn.Module  # pi, being trained
    best: nn.Module  # pi_best, the one that samples
    optimizer: Optimizers
    dataset: PseudoExperts
    ema: nn.Module | None = None  # running average of pi's weights, which takes its place outside of training
    epoch: int = 0  # finished ones
    best_cost: float = math.inf  # mean greedy cost of pi_best on the validation set
    best_gap: float = math.nan  # its mean gap, NaN without references
    totals: dict[str, float] = field(default_factory=lambda: {"seconds": 0.0, "batches": 0, "solutions": 0})

    @property
    def candidate(self) -> nn.Module:
        """What is validated, and sampled with if it is the best so far."""
        return self.policy if self.ema is None else self.ema

    @torch.no_grad()
    def update_ema(self, keep: float, step: int) -> None:
        """Move the running average towards the policy, after its update `step` = 0, 1, ... of the whole training.

        Arguments:
            keep: share of the old average; less in the first steps, when it is still far off
        """
        if self.ema is not None:
            weight = 1 - min(keep, (step + 1) / (step + 10))
            torch._foreach_lerp_(list(self.ema.parameters()), list(self.policy.parameters()), weight)
            for ours, theirs in zip(self.ema.buffers(), self.policy.buffers(), strict=True):
                ours.copy_(theirs)

    def accept(self, quality: Quality) -> bool:
        """Whether the candidate, of this greedy quality, is the best policy from now on."""
        improved = quality.cost < self.best_cost
        if improved:
            self.best.load_state_dict(self.candidate.state_dict())
            self.best_cost, self.best_gap = quality.cost, quality.gap
        return improved

    def count(self, seconds: float, batches: int, solutions: float) -> None:
        """Add an epoch, complete or cut short, to the totals."""
        self.totals["seconds"] += seconds
        self.totals["batches"] += batches
        self.totals["solutions"] += solutions

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state_dict(),
            "ema": None if self.ema is None else self.ema.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "dataset": [shard.name for shard in self.dataset.shards],
            "epoch": self.epoch,
            "best_cost": self.best_cost,
            "best_gap": self.best_gap,
            "totals": dict(self.totals),
        }

    def load_state_dict(self, state: dict[str, Any], best: dict[str, Tensor], instance_type: type) -> None:
        self.policy.load_state_dict(state["policy"])
        if self.ema is not None:
            self.ema.load_state_dict(state["ema"])
        self.best.load_state_dict(best)
        self.optimizer.load_state_dict(state["optimizer"])
        self.dataset.restore(state["dataset"], instance_type)
        self.epoch, self.totals = state["epoch"], dict(state["totals"])
        self.best_cost, self.best_gap = state["best_cost"], state["best_gap"]
