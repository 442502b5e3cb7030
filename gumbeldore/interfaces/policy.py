"""The contract of a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from gumbeldore.interfaces.problem import noting


class Policy(nn.Module, ABC):
    """A network that scores the next action; a subclass defines `forward`, the other methods have defaults.

    `policy_contract` checks a subclass.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = noting(cls.__init__)  # type: ignore[method-assign]

    problem: str | None = None  # name of the only problem that the policy is for; None: any problem

    def encode(self, instance: Any) -> Any:
        """The context: a NamedTuple of [R, ...] that depends on the instance alone, not computed at every step.

        By default the instance itself.
        """
        return instance

    @abstractmethod
    def forward(self, context: Any, state: Any) -> Tensor:
        """Logits [R, A], float32 or float64. The caller applies the mask and the log-softmax."""

    def with_auxiliary_loss(self, context: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        """The logits [R, A] of `forward`, and an auxiliary loss [] that training adds to the cross-entropy.

        By default the loss is zero.

        Arguments:
            remaining_actions: [R, T - q] all decisions of the expert from the state on; the first column is the target
        """
        logits = self(context, state)
        return logits, logits.new_zeros(())
