"""Checked settings: a value of the wrong type or out of range is an error that names its key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LARGEST = 2**63 - 1  # integer of a tensor


def at_least(lowest: float, optional: bool = False) -> Any:
    """A dataclass field for a finite number of at least `lowest`; its annotation decides between int and float."""
    return field(metadata={"lowest": lowest, "optional": optional})


def positive(optional: bool = False) -> Any:
    """A dataclass field for a finite number above 0."""
    return field(metadata={"above": 0, "optional": optional})


class Checked:
    """Base of settings dataclasses whose fields carry their range (no defaults: these live in configs/)."""

    prefix = ""  # of the keys in messages

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Checked:
        """With the values of that name among others."""
        return cls(**{spec.name: values[spec.name] for spec in dataclasses.fields(cls)})

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            key, value = f"{self.prefix}{spec.name}", getattr(self, spec.name)
            if spec.metadata:
                _check(key, value, spec)
            elif spec.type == "str | None" and value is None:
                continue
            elif spec.type in ("str", "str | None") and not isinstance(value, str):
                raise ValueError(f"{key} must be text, got {value!r}; quote it if it is a number")
            elif spec.type in ("str", "str | None") and not value:  # as of a shell's variable that is not set
                raise ValueError(f"{key} must not be empty")


def _check(key: str, value: Any, spec: dataclasses.Field) -> None:
    if value is None and spec.metadata["optional"]:
        return
    whole = spec.type.startswith("int")
    kind = "an integer" if whole else "a number"
    lowest, above = spec.metadata.get("lowest"), spec.metadata.get("above")
    limit = f"at least {lowest}" if lowest is not None else f"above {above}"
    allowed = f"{kind} {limit}" + (" or null" if spec.metadata["optional"] else "")
    fits = is_number(value) and (isinstance(value, int) or not whole)
    if not fits or (value < lowest if lowest is not None else value <= above):
        raise ValueError(f"{key} must be {allowed}, got {value!r}")
    if whole and value > LARGEST:
        raise ValueError(f"{key} must be at most {LARGEST}, got {value}")


def is_number(value: Any) -> bool:
    """Whether it is a finite one; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) or isinstance(value, float) and math.isfinite(value)


def check_switches(settings: Any, *names: str, prefix: str = "") -> None:
    """Raises ValueError for what is neither True nor False: `no` and `off` are texts, and texts count as true."""
    for name in names:
        if not isinstance(getattr(settings, name), bool):
            raise ValueError(f"{prefix}{name} must be true or false, got {getattr(settings, name)!r}")


@dataclass(frozen=True)
class TrainSettings(Checked):
    """Sizes of self-improvement training [GD, algorithm 1]; the presets are in configs/."""

    prefix = "train."

    experts: str | None  # solutions to imitate; None: sampled ones
    epochs: int = at_least(0)
    instances_per_epoch: int = at_least(1)
    batches_per_epoch: int = at_least(1)
    batch_size: int = at_least(1)
    learning_rate: float = positive()
    final_learning_rate: float = positive()  # of the last epoch
    cooldown_epochs: int | None = at_least(1, optional=True)  # last ones, in which the rate falls linearly; None: all
    matrix_learning_rate: float | None = positive(optional=True)  # Muon's, which falls alike; null: Adam for all
    matrix_weight_decay: float = at_least(0)  # Muon's: share of the weights, times the learning rate, lost at a step
    gradient_clip: float = positive()  # largest norm of the gradient
    averaging: float = at_least(0)  # share of the old in the running average of the weights; 0: no average
    nucleus_after: int = at_least(0)  # epochs before the search's nucleus is used; until then it is 1
    greedy_too: bool  # the best policy's greedy solution can be an expert; False: sampled ones alone [GD, algorithm 1]
    forget: bool  # all experts when the best policy has improved [GD, algorithm 1]; False: only those beyond capacity
    decisions_per_epoch: int | None = at_least(1, optional=True)  # of the experts of an epoch, at most
    dataset_capacity: int | None = at_least(1, optional=True)  # instances; null: no limit
    validation_instances: int = at_least(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_switches(self, "forget", "greedy_too", prefix=self.prefix)
        if self.averaging >= 1:
            raise ValueError(f"train.averaging must be below 1, got {self.averaging}")

    @property
    def samples(self) -> bool:
        """Whether every epoch samples its own experts; otherwise they are given."""
        return self.experts is None


@dataclass(frozen=True)
class RunSettings(Checked):
    """The top-level keys of configs/train.yaml."""

    seed: int = at_least(0)
    run_dir: str | None
    resume: str | None
    init: str | None
    time_limit: float | None = positive(optional=True)
    device: str
    precision: str
    compile: bool
    workers: int | str
    worker_threads: int = at_least(1)
    trainers: int | str
    trainer_threads: int | str
    chunk_rows: int | str
    images_every: int = at_least(1)
    checkpoint_every: int | None = at_least(1, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_switches(self, "compile")


@dataclass(frozen=True)
class EvaluationSettings(Checked):
    """The top-level keys of configs/evaluate.yaml."""

    checkpoint: str
    instances: str
    num_instances: int | None = at_least(1, optional=True)
    references: str | None
    nearest: int | None = at_least(1, optional=True)
    out_dir: str | None
    seed: int = at_least(0)
    device: str
    precision: str
    workers: int | str
    worker_threads: int = at_least(1)
    chunk_rows: int | str


@dataclass(frozen=True)
class StudySettings(EvaluationSettings):
    """The top-level keys of configs/study.yaml."""

    repetitions: int = at_least(2)
