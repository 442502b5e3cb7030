"""The rewards of a race: a function of arm and index, checked wherever it is called."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Rewards = Callable[[int, Tensor], Tensor]  # (arm, indices int64 [m]) -> the arm's rewards at these indices [m]


def look(rewards: Rewards, arm: int, indices: Tensor) -> Tensor:
    """The arm's rewards [m] at these indices, float64 on the CPU.

    Raises ValueError for another shape, and for a reward that is not finite.
    """
    values = rewards(arm, indices)
    if not isinstance(values, Tensor) or values.shape != indices.shape:
        got = f"shape {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"rewards must return a tensor of shape {list(indices.shape)} for arm {arm}, got {got}")
    values = values.detach().to("cpu", torch.float64)
    finite = values.isfinite()
    if not finite.all():
        place = int(finite.long().argmin())
        raise ValueError(f"the reward of arm {arm} at index {indices[place]} must be finite, got {values[place]}")
    return values


def check_range(arm: int, lowest: float, highest: float, reward_range: float) -> None:
    """Raises ValueError if an arm's rewards differ by more than the range that a guarantee was asked for with."""
    if highest - lowest > reward_range * (1 + 1e-9):  # the rounding of a range such as 0.3 - 0.1
        raise ValueError(
            f"reward_range must be at least what the rewards of one arm differ by, got {reward_range}: "
            f"those of arm {arm} reach from {lowest} to {highest}"
        )


def with_control(rewards: Rewards, control: Rewards, control_means: Tensor) -> Rewards:
    """Rewards of the same means and, if the control follows the rewards, of less variance (control variates).

    The new rewards are r - c + mean(c). Their range is another: up to the sum of both ranges.

    Arguments:
        control: a cheap function like the rewards, not counted as looking at a reward
        control_means: mean of the control over the whole population, for each arm [D]
    """
    means = torch.as_tensor(control_means, dtype=torch.float64, device="cpu")
    if means.ndim != 1 or not means.isfinite().all():
        raise ValueError(f"control_means must be one finite number per arm, got {control_means}")

    def controlled(arm: int, indices: Tensor) -> Tensor:
        if arm >= len(means):
            raise ValueError(f"control_means must be one finite number per arm, got {len(means)}")
        return look(rewards, arm, indices) - look(control, arm, indices) + means[arm]

    return controlled
