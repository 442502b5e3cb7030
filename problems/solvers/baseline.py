"""An established solver as a baseline of an evaluation."""

from __future__ import annotations

import heapq

from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from gumbeldore.runtime.hardware import SOLVER_THREADS
from problems.solvers.backends import backend_of
from problems.solvers.solver import Progress, Solver

CALLS_PER_WORKER = 8  # in a row, before an evaluation keeps what was found; Ray's actors start anew then


class SolverBaseline:
    """One solution of the problem's solver for each instance; arguments as those of `Solver`."""

    def __init__(self, time_limit: float, workers: int, seed: int, threads: int = SOLVER_THREADS):
        self.solver = Solver(time_limit, workers, seed, threads=threads)
        self.per_part = CALLS_PER_WORKER * max(1, workers)

    def check(self, problem: str) -> None:
        """Raises ValueError if the problem has no solver, or the package that has it is not installed."""
        backend_of(problem)

    def solve(
        self, problem: str, instance_set: InstanceSet, progress: Progress
    ) -> dict[str, tuple[Tensor, float, Tensor, list[str]]]:
        """As `Solver.solve`, without what is not found. The seconds include those of answers kept from earlier."""
        found = self.solver.solve(problem, instance_set, progress, leave_out=True)
        seconds = wall_clock(found.seconds.tolist(), max(1, self.solver.workers))
        return {backend_of(problem).title: (found.actions, seconds, found.bounds, found.kinds)}


def wall_clock(seconds: list[float], workers: int) -> float:
    """How long workers take for instances of so many seconds each, when whoever is free takes the next one."""
    free_at = [0.0] * workers
    for each in seconds:
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)
