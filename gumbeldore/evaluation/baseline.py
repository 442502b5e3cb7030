"""What an evaluation compares a policy with: solutions that no network finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gumbeldore.evaluation.solve import BenchmarkResult, best_of
from gumbeldore.interfaces import Benchmark, Problem


@runtime_checkable
class Baseline(Protocol):
    """A method of an evaluation that needs no policy, such as a solver or a classical heuristic."""

    def check(self, problem: str) -> None:
        """Raises ValueError if the method cannot solve the problem of that name, or not on this machine."""

    def solve(
        self, problem: str, benchmark: Benchmark, progress: Callable[[int], None]
    ) -> dict[str, tuple[Tensor, float]]:
        """Solve every instance with each heuristic that the method offers; an evaluation shows the best of them.

        Arguments:
            problem: its name
            benchmark: with the `originals` of that problem
            progress: called with the number of instances solved since the last call

        Returns by the name of the heuristic: actions [n, T] and the wall-clock seconds of all instances together.
        Raises ValueError for an instance that cannot be solved.
        """


def solve_baseline(
    name: str, method: Baseline, problem: Problem, benchmarks: list[Benchmark], advance: Callable[[int], None]
) -> tuple[str, list[BenchmarkResult]]:
    """The solutions of the heuristic that is the best on all benchmarks; it is named where there are several.

    Their time is that of all heuristics, which had to be tried to find the best.
    """
    found: dict[str, list[BenchmarkResult]] = {}
    for benchmark in benchmarks:
        solved = method.solve(problem.name, benchmark, advance)
        seconds = sum(each for _, each in solved.values())
        for heuristic, (actions, _) in solved.items():
            costs = benchmark.true_cost(torch.arange(len(actions)), actions)
            found.setdefault(heuristic, []).append(BenchmarkResult.without_policy(actions, costs, seconds))
    best = best_of(found, benchmarks)
    return name if len(found) == 1 else f"{name}: {best}", found[best]
