"""What a race is asked and what it answers: the calling form that all algorithms share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gumbeldore.races.rewards import Rewards
from gumbeldore.runtime.checked import check_counts, is_number


class Outcome(NamedTuple):
    """The arm found, and what was seen of all of them."""

    arm: int
    means: Tensor  # [D] of the rewards looked at, float64; NaN for an arm that was never looked at
    counts: Tensor  # [D] rewards looked at, int64
    exact: bool  # the decision is certain: there is one arm, or all rewards of every arm were looked at

    @property
    def total(self) -> int:
        """Rewards looked at, of all arms together."""
        return int(self.counts.sum())


class Identify(Protocol):
    """Finds the arm with the highest mean reward, wrongly with probability at most delta.

    `race` and `lil_ucb` have this form once functools.partial has given the arguments that are their own.

    Arguments:
        rewards: (arm, indices [m]) -> rewards [m]; higher is better
        num_arms: D, at least 1
        population: N, rewards of each arm, at least 1; indices are 0..N-1, the same for every arm
        delta: allowed probability of a wrong arm, in (0, 1)
        generator: draws the order in which rewards are looked at

    Raises ValueError for wrong arguments, and for rewards that are not finite or have another shape.
    """

    def __call__(
        self, rewards: Rewards, num_arms: int, population: int, delta: float, *, generator: torch.Generator
    ) -> Outcome: ...


def check_task(num_arms: int, population: int, delta: float, generator: torch.Generator) -> None:
    """Raises ValueError for wrong values of the arguments that all algorithms have."""
    check_counts(num_arms=num_arms, population=population)
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(f"delta must be a number between 0 and 1, both excluded, got {delta!r}")
    if not (isinstance(generator, torch.Generator) and generator.device.type == "cpu"):
        raise ValueError(f"generator must be a torch.Generator of the CPU, got {generator!r}")


def without_looking() -> Outcome:
    """The outcome where there is one arm."""
    return Outcome(0, torch.full((1,), torch.nan, dtype=torch.float64), torch.zeros(1, dtype=torch.int64), True)
