"""What an evaluation compares a policy with: solutions that no network finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from torch import Tensor

from gumbeldore.interfaces import Benchmark


@runtime_checkable
class Baseline(Protocol):
    """A method of an evaluation that needs no policy, such as a solver or a classical heuristic."""

    def check(self, problem: str) -> None:
        """Raises ValueError if the method cannot solve the problem of that name, or not on this machine."""

    def solve(
        self, problem: str, benchmark: Benchmark, progress: Callable[[int], None]
    ) -> dict[str, tuple[Tensor, float]]:
        """Solve every instance in each way that the method knows; an evaluation shows the best way.

        Arguments:
            problem: its name
            benchmark: with the `originals` of that problem
            progress: called with the number of instances solved since the last call

        Returns by the name of the way: actions [n, T] and the wall-clock seconds of all instances together.
        Raises ValueError for an instance that cannot be solved.
        """
