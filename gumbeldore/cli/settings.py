"""The top-level keys of the configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omegaconf import OmegaConf

from gumbeldore.races.settings import RaceSettings
from gumbeldore.runtime.checked import Checked, at_least, check_switches, positive


@dataclass(frozen=True, kw_only=True)
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
    train_processes: int | str
    train_threads: int | str
    search_batch_rows: int | str
    images_every: int = at_least(1)
    checkpoint_every: int | None = at_least(1, optional=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_switches(self, "compile")


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Checked):
    """The top-level keys of configs/evaluate.yaml."""

    checkpoint: str | None
    instances: str
    num_instances: int | None = at_least(1, optional=True)
    references: str | None
    out_dir: str | None
    resume: bool
    seed: int = at_least(0)
    device: str
    precision: str
    compile: bool
    workers: int | str
    worker_threads: int = at_least(1)
    search_batch_rows: int | str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_switches(self, "compile", "resume")


AXES = ("samples", "evaluations", "seconds")


@dataclass(frozen=True, kw_only=True)
class StudySettings(EvaluationSettings):
    """The top-level keys of configs/study.yaml."""

    checkpoint: str  # none is chosen for the instances
    kind: str
    repetitions: int = at_least(2)
    reference_samples: int = at_least(1)
    axis: str
    race: RaceSettings | None  # of study=step_size

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StudySettings:
        return super().of({**values, "race": race_of(values["race"])})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.axis not in AXES:
            raise ValueError(f"axis must be one of {', '.join(AXES)}, got {self.axis!r}")


def race_of(values: Any) -> RaceSettings | None:
    """The settings of a race; None where there is no race.

    Raises ValueError unless the keys are those of a race.
    """
    if values is None:
        return None
    names = [spec.name for spec in fields(RaceSettings)]
    if not OmegaConf.is_dict(values) or sorted(values) != sorted(names):
        raise ValueError(f"race must be null or have the keys {' and '.join(names)}, got {values}")
    try:
        return RaceSettings(**values)
    except ValueError as error:
        raise ValueError(f"race.{error}") from None
