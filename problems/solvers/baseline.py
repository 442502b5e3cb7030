"""An established solver as a baseline of an evaluation."""

from __future__ import annotations

from torch import Tensor

from gumbeldore.interfaces import Benchmark
from problems.solvers.backends import backend_of
from problems.solvers.solver import Progress, Solver


class SolverBaseline:
    """One solution of the problem's solver for each instance; arguments as those of `Solver`."""

    def __init__(self, time_limit: float, workers: int, seed: int):
        self.solver = Solver(time_limit, workers, seed)

    def check(self, problem: str) -> None:
        """Raises ValueError if the problem has no solver, or the package that has it is not installed."""
        backend_of(problem)

    def solve(self, problem: str, benchmark: Benchmark, progress: Progress) -> dict[str, tuple[Tensor, float]]:
        """As `Solver.solve`. The seconds include those of answers that were kept from earlier."""
        found = self.solver.solve(problem, benchmark, progress)
        seconds = found.seconds.sum().item() / max(1, self.solver.workers)
        return {backend_of(problem).title: (found.actions, seconds)}
