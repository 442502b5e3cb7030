"""All that changes during training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from gumbeldore.interfaces import Policy
from gumbeldore.runtime.checked import check_integer
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.optimizer import Optimizers
from gumbeldore.training.report import EpochReport
from gumbeldore.training.settings import ImitationSettings
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
        """Make the policy the best one if its cost is lower. Returns whether it is."""
        improved = quality.cost < self.best_cost
        if improved:
            self.best.load_state_dict(self.policy.state_dict())
            self.best_cost, self.best_gap = quality.cost, quality.gap
        return improved

    def is_over(self, settings: ImitationSettings) -> bool:
        """Whether all epochs are done, or `settings.patience` epochs have brought no improvement."""
        stale = settings.patience is not None and self.since_best >= settings.patience
        return stale or self.epoch >= settings.epochs

    def complete(self, report: EpochReport, settings: ImitationSettings) -> None:
        """Count an epoch that is complete; its report gets seconds by phase, and the totals of the training."""
        self.epoch += 1
        self.since_best = 0 if report.improved else self.since_best + 1
        self.count_epoch(report, settings.batches_per_epoch)
        phases = {f"usage/seconds/{phase}": seconds for phase, seconds in report.seconds.items()}
        totals = {f"usage/totals/{name}": value for name, value in self.totals.items()}
        report.metrics |= {"usage/epoch_seconds": sum(report.seconds.values()), **phases, **totals}

    def count_epoch(self, report: EpochReport, batches: int) -> None:
        """Add the epoch to the totals. The totals of a cut epoch are not saved, because a continued run repeats it."""
        self.totals["seconds"] += sum(report.seconds.values())
        self.totals["batches"] += batches
        for name in ("solutions", "evaluations"):
            self.totals[name] += report.metrics.get(f"sampling/{name}", 0)

    def quality_metrics(self, quality: Quality) -> dict[str, float]:
        """Greedy cost and gap of the trained policy and of the best one; no gap without references."""
        metrics = {"greedy_cost": quality.cost, "best_greedy_cost": self.best_cost}
        metrics |= {"greedy_gap": quality.gap, "best_greedy_gap": self.best_gap}
        metrics |= {f"greedy_cost_{size}": cost for size, cost in quality.costs.items()}
        return {f"quality/{name}": value for name, value in metrics.items() if not math.isnan(value)}

    def state_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            **self.dataset.state_dict(),
            "epoch": self.epoch,
            "since_best": self.since_best,
            "best_cost": self.best_cost,
            "best_gap": self.best_gap,
            "totals": dict(self.totals),
        }

    def load_state_dict(self, state: dict[str, Any], best: dict[str, Tensor], instance_type: type) -> None:
        """Take over what `state_dict` has given. Raises ValueError for what it cannot have given."""
        for name in ("epoch", "since_best"):
            check_integer(name, state[name], 0)
        totals = {name: state["totals"][name] for name in TOTALS}
        for name, value in {"best_cost": state["best_cost"], "best_gap": state["best_gap"], **totals}.items():
            if type(value) not in (int, float):
                raise ValueError(f"{name} must be a number, got {value!r:.50}")
        self.policy.load_state_dict(state["policy"])
        self.best.load_state_dict(best)
        self.optimizer.load_state_dict(state["optimizer"])
        self.dataset.restore(state["dataset"], instance_type, state.get("checksums"))
        self.epoch, self.since_best, self.totals = state["epoch"], state["since_best"], totals
        self.best_cost, self.best_gap = state["best_cost"], state["best_gap"]
