"""A local search finishes what the policy begins: small changes of whole solutions, without the policy."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

from gumbeldore.interfaces import HasLocalSearch
from gumbeldore.sampler.beam import Count
from gumbeldore.sampler.methods.improvement import Improvement
from gumbeldore.sampler.methods.method import at_least_one
from gumbeldore.sampler.solutions import Solutions
from gumbeldore.sampler.task import SearchTask


@dataclass(frozen=True)
class LocalSearch(Improvement):
    """The problem's local search from the best solutions that another method finds.

    Arguments:
        start: the method whose solutions are improved
        num_starts: so many of its solutions, the best ones
        steps: of the local search, of each instance; with a time limit it goes on until the limit has passed
    """

    share_of_start: ClassVar[float] = 0.5  # the search gains more than a better start

    num_starts: int = at_least_one(8)
    steps: int = at_least_one(100_000)

    @property
    def random(self) -> bool:  # type: ignore[override]
        return True

    def check(self, task: SearchTask) -> None:
        super().check(task)
        if not isinstance(task.problem, HasLocalSearch):
            raise ValueError(f"there is no local search for {task.problem.name}")
        task.problem.prepare_local_search()

    def improved(self, task: SearchTask, solutions: Solutions) -> Solutions:
        assert isinstance(task.problem, HasLocalSearch)
        steps = math.inf if task.deadline < math.inf else self.steps
        in_time = time.monotonic() < task.deadline
        starts = solutions.best_few(self.num_starts)
        actions = task.problem.local_search(task.instances, starts, steps, task.keys, task.deadline)
        cost = task.problem.cost(task.instances, actions).double()
        return solutions.with_better(actions, cost).after(Count(), iterations=in_time)
