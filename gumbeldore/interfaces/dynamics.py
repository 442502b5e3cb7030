"""How solutions of a problem are built, step by step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor


class Dynamics(ABC):
    """T successive decisions among A actions, and what they cost. From `generate` to `cost`, methods are required."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The problem's name in messages, files and checkpoints: an attribute of the class, `name = "tsp"`."""

    @abstractmethod
    def generate(self, n: int, generator: torch.Generator) -> Any:
        """Draw n random training instances."""

    @abstractmethod
    def num_actions(self, instance: Any) -> int:
        """A, the size of the action space."""

    @abstractmethod
    def horizon(self, instance: Any) -> int:
        """T, the number of decisions of every solution."""

    @abstractmethod
    def last_choice(self, instance: Any) -> int:
        """Index of the last decision that is not always forced; training learns decisions 0..last_choice."""

    @abstractmethod
    def reset(self, instance: Any) -> Any:
        """The state before the first decision."""

    @abstractmethod
    def step(self, instance: Any, state: Any, action: Tensor) -> Any:
        """The state after `action` [R]; a finished row is absorbing, with exactly one legal action."""

    @abstractmethod
    def mask(self, instance: Any, state: Any) -> Tensor:
        """bool [R, A], True = legal; no row is all False. What never leads to a better solution may be left out."""

    @abstractmethod
    def cost(self, instance: Any, actions: Tensor) -> Tensor:
        """Cost [R] of complete action sequences [R, T], lower is better, also below 0, from the actions alone.

        Raises ValueError if a sequence is not a legal solution.
        """

    def replay(self, instance: Any, actions: Tensor) -> Any:
        """The state after the decisions `actions` [R, q], q >= 0; training starts there. Default: q times `step`."""
        state = self.reset(instance)
        for action in actions.unbind(dim=1):
            state = self.step(instance, state, action)
        return state

    def edges(self, instance: Any, actions: Tensor) -> Tensor:
        """What complete solutions `actions` [R, T] consist of, such as the edges of a tour, as int64 numbers [R, E].

        Solutions of an instance are the more alike, the more numbers they share; numbers below 0 mean nothing. Default:
        the action of each decision.
        """
        return torch.arange(actions.shape[1], device=actions.device) * self.num_actions(instance) + actions
