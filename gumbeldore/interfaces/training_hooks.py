"""What training asks of a problem."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

from gumbeldore.interfaces.dynamics import Dynamics

Hooks = TypeVar("Hooks", bound="TrainingHooks")


class TrainingHooks(Dynamics):
    """Which decisions of experts are imitated, in which order, and of which instances."""

    def num_choices(self, instance: Any, actions: Tensor) -> Tensor:
        """How many decisions int64 [R] of the solutions `actions` [R, T], the first ones, training learns.

        Default: `last_choice` + 1 of each. Where solutions end early, those up to their end.
        """
        return torch.full((len(actions),), self.last_choice(instance) + 1, device=actions.device)

    def in_view(self, instance: Any, state: Any, action: Tensor) -> Tensor:
        """Whether the policy sees what the actions [R] of an expert go to, bool [R]; else they are not imitated.

        Default: it sees everything.
        """
        return torch.ones_like(action, dtype=torch.bool)

    def augment(self, instance: Any, actions: Tensor, step: int, generator: torch.Generator) -> tuple[Any, Tensor]:
        """Other instances with solutions as good as `actions` [R, T] are for `instance`, e.g. mirrored ones.

        Training imitates their decisions from `step` on. Default: instances and solutions as they are.

        Arguments:
            generator: of the CPU, the only source of random numbers
        """
        return instance, actions

    def reorder(self, instance: Any, actions: Tensor, step: int, generator: torch.Generator) -> Tensor:
        """The solutions `actions` [R, T] with their decisions in another order, at the same or a lower cost.

        Training imitates the decisions from `step` on. Default: the same order.

        Arguments:
            generator: as in `augment`
        """
        return actions

    def curriculum(self: Hooks, progress: float) -> Hooks:
        """The problem whose instances training draws after a share `progress` of the epochs.

        After all of them, these are the instances of this problem. Default: this problem throughout.
        """
        return self
