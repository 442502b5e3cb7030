"""What a study is told of its race: the keys of `race`."""

from __future__ import annotations

from dataclasses import dataclass

from gumbeldore.runtime.checked import Checked, at_least, positive


@dataclass(frozen=True, kw_only=True)
class RaceSettings(Checked):
    """The arguments of `race` that a user decides."""

    delta: float = positive()  # allowed probability of a wrong arm, below 1
    first_batch: int = at_least(1)  # instances that every arm is looked at on

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta >= 1:
            raise ValueError(f"delta must be below 1, got {self.delta}")
