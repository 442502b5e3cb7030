"""The settings of training."""

from __future__ import annotations

from dataclasses import dataclass

from gumbeldore.runtime.checked import Checked, at_least, check_switches, positive


@dataclass(frozen=True, kw_only=True)
class TrainSettings(Checked):
    """Sizes of self-improvement training [GD, algorithm 1].

    There are no defaults here: those of the paper are the block `train` of configs/train.yaml.
    """

    prefix = "train."

    experts: str | None  # solutions to imitate, or those that a pool begins with; None: sampled ones
    instances: str | None  # given ones whose solutions are to be improved (active search); None: random ones
    pool: int | None = at_least(1, optional=True)  # random instances that stay and are searched again; None: new ones
    sample_with_best: bool  # the best policy samples the experts; False: the policy that is trained
    keep_experts: bool  # until a policy is better than the best one; False: for the epoch that has sampled them
    epochs: int = at_least(0)
    instances_per_epoch: int = at_least(1)
    batches_per_epoch: int = at_least(1)
    batch_size: int = at_least(1)
    learning_rate: float = positive()
    learning_rate_end_factor: float = positive()  # share of the learning rates left in the last epoch; 1: constant
    cooldown_epochs: int | None = at_least(1, optional=True)  # last ones, in which the rates fall linearly; None: all
    muon_learning_rate: float | None = positive(optional=True)  # Muon's; None: Adam for all
    muon_weight_decay: float = at_least(0)  # Muon's: share of the weights, times the learning rate, lost at a step
    gradient_clip: float = positive()  # largest norm of the gradient
    patience: int | None = at_least(1, optional=True)  # epochs without an improvement that end the training
    nucleus_after: int = at_least(0)  # epochs before the search's nucleus is used; until then it is 1
    decisions_per_epoch: int | None = at_least(1, optional=True)  # of the experts of an epoch, at most
    validation_instances: int = at_least(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_switches(self, "sample_with_best", "keep_experts")
        if self.learning_rate_end_factor > 1:
            raise ValueError(f"train.learning_rate_end_factor must be at most 1, got {self.learning_rate_end_factor}")
        if self.experts is not None and self.instances is not None:
            raise ValueError(
                "train.experts and train.instances exclude each other: solutions are given or searched for"
            )
        if self.pool is not None:
            self._check_pool(self.pool)
        if self.cooldown_epochs is not None and self.learning_rate_end_factor == 1:
            raise ValueError("train.cooldown_epochs has no effect with train.learning_rate_end_factor=1")

    def _check_pool(self, pool: int) -> None:
        if self.instances is not None:
            raise ValueError("train.pool and train.instances exclude each other: instances are random or given")
        if not self.keep_experts:
            raise ValueError("train.pool needs train.keep_experts=true: the experts of a pool stay")
        if pool < self.instances_per_epoch:
            least = f"train.instances_per_epoch={self.instances_per_epoch}, which an epoch searches"
            raise ValueError(f"train.pool must be at least {least}, got {pool}")

    @property
    def samples(self) -> bool:
        """Whether every epoch samples experts; otherwise they are given."""
        return self.experts is None or self.pool is not None
