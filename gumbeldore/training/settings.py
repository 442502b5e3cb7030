"""The settings of a training's algorithm; the defaults are the paper's for the TSP with 100 nodes [GD, section 5]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gumbeldore.runtime.checked import Checked, at_least, positive


@dataclass(frozen=True, kw_only=True)
class ImitationSettings(Checked):
    """How experts are imitated, whichever they are.

    Arguments:
        epochs: passes of sampling, training and validation
        batches_per_epoch: batches of training in an epoch
        batch_size: decisions to imitate in each batch
        learning_rate: learning rate of the first epoch
        learning_rate_end_factor: learning rate of the last epoch, as a share of the first; 1: the rates are constant
        cooldown_epochs: the learning rates fall in so many last epochs, and are constant before; None: they fall in all
            epochs
        muon_learning_rate: learning rate of Muon, for the matrices; it falls like the other; None: Adam for all
        muon_weight_decay: share of the weights, times Muon's learning rate, that is lost at every step
        gradient_clip: largest norm of the gradient
        patience: the training ends after so many epochs without a better policy (active search: without a better
            solution); None: it does not
    """

    prefix = "train."
    # Fields of some algorithms alone, for readers of the settings of any of them; the others do not have the setting.
    # A subclass with such a field must give it a value, if only `field()`, or its default would be None.
    experts: ClassVar[str | None] = None
    instances: ClassVar[str | None] = None
    pool: ClassVar[int | None] = None

    epochs: int = at_least(0, 2200)
    batches_per_epoch: int = at_least(1, 1000)
    batch_size: int = at_least(1, 1024)
    learning_rate: float = positive(2e-4)
    learning_rate_end_factor: float = positive(1.0, highest=1)
    cooldown_epochs: int | None = at_least(1, None)
    muon_learning_rate: float | None = positive(None)
    muon_weight_decay: float = at_least(0, 0)
    gradient_clip: float = positive(1.0)
    patience: int | None = at_least(1, None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cooldown_epochs is not None and self.learning_rate_end_factor == 1:
            raise ValueError("train.cooldown_epochs has no effect with train.learning_rate_end_factor=1")
        if self.muon_weight_decay and self.muon_learning_rate is None:
            raise ValueError("train.muon_weight_decay has no effect without train.muon_learning_rate")


@dataclass(frozen=True, kw_only=True)
class TrainSettings(ImitationSettings):
    """Self-improvement training [GD, algorithm 1].

    Arguments:
        instances_per_epoch: random instances of an epoch, for each of which an expert is sampled
        decisions_per_epoch: limit on the decisions of an epoch's experts; an epoch has one instance at least; None: no
            limit
        pool: so many full-sized instances stay, each with its best solution so far; an epoch searches those again that
            were searched longest ago; None: the instances of an epoch are new
        experts: a file or folder of solutions with which the pool begins; None: the pool begins empty
        sample_with_best: the best policy samples the experts; False: the policy that is trained
        keep_experts: experts stay until a policy is better than the best one; False: for one epoch
        nucleus_after: epochs before the search uses its nucleus; until then the nucleus is 1
        validation_instances: instances on which a new policy must beat the best one, greedily
    """

    instances_per_epoch: int = at_least(1, 1000)
    decisions_per_epoch: int | None = at_least(1, None)
    pool: int | None = at_least(1, None)  # type: ignore[misc]
    experts: str | None = None  # type: ignore[misc]
    sample_with_best: bool = True
    keep_experts: bool = True
    nucleus_after: int = at_least(0, 500)
    validation_instances: int = at_least(1, 10000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool is None:
            if self.experts is not None:
                raise ValueError("train.experts is for train=supervised, or for a pool that begins with experts")
            return
        if not self.keep_experts:
            raise ValueError("train.pool needs train.keep_experts=true: the experts of a pool stay")
        if self.pool < self.instances_per_epoch:
            least = f"train.instances_per_epoch={self.instances_per_epoch}, which an epoch searches"
            raise ValueError(f"train.pool must be at least {least}, got {self.pool}")


@dataclass(frozen=True, kw_only=True)
class SupervisedSettings(ImitationSettings):
    """Imitation of given solutions.

    Arguments:
        experts: a file of instances and solutions, as `python -m problems.solvers` writes it, or a folder of such files
        validation_instances: instances on which a new policy must beat the best one, greedily
    """

    experts: str = field()  # type: ignore[misc]
    validation_instances: int = at_least(1, 10000)


@dataclass(frozen=True, kw_only=True)
class ActiveSearchSettings(ImitationSettings):
    """Self-improvement on given instances, whose solutions are what is wanted [Bello et al. 2017, section 4.2].

    Arguments:
        instances: a standard set, a benchmark file, an .npz, or a folder of files, of mixed sizes
    """

    instances: str = field()  # type: ignore[misc]


ALGORITHMS: dict[str, type[ImitationSettings]] = {
    "self_improvement": TrainSettings,
    "supervised": SupervisedSettings,
    "active_search": ActiveSearchSettings,
}
