"""The contract of a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from gumbeldore.interfaces.made_with import RecordsArguments


class Policy(RecordsArguments, nn.Module, ABC):
    """A network that scores the next action; a subclass defines `forward`, the other methods have defaults.

    `policy_contract` checks a subclass.
    """

    problem: str | None = None  # name of the only problem that the policy is for; None: any problem

    def encode(self, instance: Any) -> Any:
        """The context: a NamedTuple of [R, ...] that depends on the instance alone, not computed at every step.

        By default the instance itself.
        """
        return instance

    @abstractmethod
    def forward(self, context: Any, state: Any) -> Tensor:
        """Logits [R, A], float32 or float64. The caller applies the mask and the log-softmax."""

    def canonical_state(self, instance: Any, state: Any) -> Any:
        """The state without whatever makes no difference to the logits. By default the state itself.

        A search with a trie evaluates states of one instance with equal canonical states once, and asks about the
        canonical ones; greedy decoding asks about the states themselves.
        """
        return state

    def with_auxiliary_loss(self, context: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        """The logits [R, A] of `forward`, and an auxiliary loss [] that training adds to the cross-entropy.

        By default the loss is zero.

        Arguments:
            remaining_actions: [R, T - q] all decisions of the expert from the state on; the first column is the target
        """
        logits = self(context, state)
        return logits, logits.new_zeros(())
