"""All that changes during training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gumbeldore.interfaces import Policy
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.optimizer import Optimizers
from gumbeldore.training.validation import Quality

TOTALS = ("seconds", "batches", "solutions", "evaluations")  # the latter of the network, while sampling


@dataclass
class TrainState:
    """All that changes during training; `state_dict` and the best weights are everything needed to go on."""

    policy: Policy  # pi, being trained
    best: Policy  # pi_best, the one that samples
    optimizer: Optimizers
    dataset: PseudoExperts
    epoch: int = 0  # finished ones
    since_best: int = 0  # finished epochs since the last improvement
    best_cost: float = math.inf  # mean greedy cost of pi_best on the validation set
    best_gap: float = math.nan  # its mean gap, NaN without references
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TOTALS, 0))

    def accept(self, quality: Quality) -> bool:
        """Whether the policy, of this greedy quality, is the best one from now on."""
        improved = quality.cost < self.best_cost
        if improved:
            self.best.load_state_dict(self.policy.state_dict())
            self.best_cost, self.best_gap = quality.cost, quality.gap
        self.since_best = 0 if improved else self.since_best + 1
        return improved

    def stale(self, patience: int | None) -> bool:
        """Whether so many epochs have brought no improvement; None: it never is."""
        return patience is not None and self.since_best >= patience

    def count(self, seconds: float, batches: int, sampling: Mapping[str, float]) -> None:
        """Add an epoch to the totals; one that was cut short is in the summary alone, as a continued run repeats it.

        Arguments:
            sampling: its metrics; none if it has sampled nothing
        """
        sampled = {name: sampling.get(f"sampling/{name}", 0) for name in ("solutions", "evaluations")}
        for name, number in {"seconds": seconds, "batches": batches, **sampled}.items():
            self.totals[name] += number

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "dataset": [shard.name for shard in self.dataset.shards],
            "epoch": self.epoch,
            "since_best": self.since_best,
            "best_cost": self.best_cost,
            "best_gap": self.best_gap,
            "totals": dict(self.totals),
        }

    def load_state_dict(self, state: dict[str, Any], best: dict[str, Tensor], instance_type: type) -> None:
        self.policy.load_state_dict(state["policy"])
        self.best.load_state_dict(best)
        self.optimizer.load_state_dict(state["optimizer"])
        self.dataset.restore(state["dataset"], instance_type)
        self.epoch, self.since_best, self.totals = state["epoch"], state["since_best"], dict(state["totals"])
        self.best_cost, self.best_gap = state["best_cost"], state["best_gap"]
