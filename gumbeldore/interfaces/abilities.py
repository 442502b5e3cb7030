"""What some problems and instances can do; `isinstance` tells which."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class HasPieces(Protocol):
    """A problem whose solutions have pieces that can be decoded anew (random reconstruction)."""

    def pieces(self, instance: Any, actions: Tensor, length: int, draw: Callable[[int], Tensor]) -> Pieces:
        """Random pieces of solutions, which can be decoded anew while all else stays as it is (random reconstruction).

        Pieces are independent: a solution's cost changes by the sum of what its pieces change; so a makespan has none.
        From a piece's state, any `length` legal decisions are a piece of a legal solution. The policy must accept
        this state, which need not be one that `replay` gives (a tour may have another end).

        Arguments:
            actions: the solutions [R, T]
            length: decisions of each piece, 1..T
            draw: draw(n) gives uniform numbers [R, n] float64, others at each call; the only source of randomness
        """


@runtime_checkable
class HasIndependentDecisions(Protocol):
    """A problem some of whose decisions do not depend on each other: of one forward pass, several can be made."""

    decisions_per_pass: int  # so many at most are made in evaluations, by default

    def resources(self, instance: Any, state: Any) -> Tensor:
        """What each action takes of k kinds, such as its job and its machine, as numbers int64 [R, A, k].

        Two legal actions that take different ones of each kind lead to the same state in either order, if the second is
        still legal after the first.
        """


@runtime_checkable
class HasLocalSearch(Protocol):
    """A problem whose solutions a local search improves, which needs no policy."""

    prefers_local_search: bool  # whether it finds more in a given time than searches with the policy

    def prepare_local_search(self) -> None:
        """Do what takes long once, such as compiling; it does not count against a time limit.

        Raises ValueError if a package is missing, or the search does not know the problem's objective.
        """

    def local_search(
        self, instance: Any, actions: Tensor, steps: float, seeds: Tensor, deadline: float = math.inf
    ) -> Tensor:
        """Solutions [R, T] that cost no more than the best of the given ones, on the same device.

        For a number of steps, an instance's solution is decided by its own row of all arguments.

        Arguments:
            actions: K given solutions of each instance [R, K, T]
            steps: of each instance; inf: until the deadline
            seeds: int64 [R], of the random numbers
            deadline: on the clock `time.monotonic`, of all instances together
        """


@runtime_checkable
class HasRules(Protocol):
    """A problem that simple rules solve at once, without the policy."""

    def prepare_rules(self) -> None:
        """Do what takes long once, such as compiling; it does not count against a time limit."""

    def by_rules(self, instance: Any) -> Tensor:
        """The best solutions [R, T] of some rules, such as dispatching rules, on the instances' device."""


@runtime_checkable
class HasStoredForm(Protocol):
    """An instance type of which files of experts hold other tensors than its fields."""

    def stored(self) -> dict[str, Tensor]:
        """The tensors [R, ...] that files hold, by name."""

    @classmethod
    def restored(cls, fields: dict[str, Tensor]) -> Any:
        """The instances of such tensors. Raises ValueError if some are missing."""


class Pieces(NamedTuple):
    """Pieces of solutions, each instance has one at least; no two have a decision in common (`HasPieces`)."""

    row: Tensor  # [P] int64 the instance of each piece
    state: Any  # [P, ...] before the first decision of the piece
    sequence: Tensor  # [R, S] int64 each solution in an order in which a piece's decisions, as actions, stand together
    first: Tensor  # [P] int64 place in it of the first decision of the piece
    as_actions: Callable[[Tensor], Tensor]  # sequences [n, S] -> the actions [n, T] of the same solutions

    def with_one(self, piece: Tensor, decisions: Tensor) -> Tensor:
        """The actions [n, T] of solutions in which one piece each has other decisions.

        Arguments:
            piece: which one, int64 [n]
            decisions: [n, m]
        """
        sequence = self.sequence[self.row[piece]]
        return self.as_actions(sequence.scatter(1, self._places(decisions)[piece], decisions))

    def with_all(self, decisions: Tensor, chosen: Tensor) -> Tensor:
        """The actions [R, T] of the solutions in which all chosen pieces, bool [P], have other decisions [P, m]."""
        sequence = self.sequence.clone()
        sequence[self.row[chosen, None], self._places(decisions)[chosen]] = decisions[chosen]
        return self.as_actions(sequence)

    def _places(self, decisions: Tensor) -> Tensor:
        return self.first[:, None] + torch.arange(decisions.shape[1], device=decisions.device)
