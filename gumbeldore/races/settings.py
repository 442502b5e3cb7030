"""What a study is told of its race: the keys of `race`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gumbeldore.runtime.checked import Checked, at_least, positive


@dataclass(frozen=True, kw_only=True)
class RaceSettings(Checked):
    """The arguments of `race` that a user decides.

    Arguments:
        delta: allowed probability of a wrong choice, below 1
        first_batch: instances that every arm is looked at on; then 2, 4, ... times as many, for the arms that are left
    """

    prefix: ClassVar[str] = "race."

    delta: float = positive(0.05)
    first_batch: int = at_least(1, 25)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta >= 1:
            raise ValueError(f"{self.prefix}delta must be below 1, got {self.delta}")
