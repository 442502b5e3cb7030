"""What methods have in common that improve the solutions of another one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from gumbeldore.sampler.methods.greedy import Greedy
from gumbeldore.sampler.methods.method import NOTHING, Rounds, Timed, beside
from gumbeldore.sampler.methods.rules import Rules
from gumbeldore.sampler.solutions import Solutions, known
from gumbeldore.sampler.task import SearchTask


@dataclass(frozen=True)
class Improvement(Timed):
    """A method that improves the solutions of another one.

    Arguments:
        start: the method whose solutions are improved
    """

    takes_start: ClassVar[bool] = True

    start: Rounds = field(default_factory=Greedy)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.start, Rounds):
            raise ValueError(f"start must be a method of rounds, without a time limit of its own, got {self.start!r}")

    @property
    def needs_greedy(self) -> bool:  # type: ignore[override]
        return not isinstance(self.start, Rules)

    @abstractmethod
    def improved(self, task: SearchTask, solutions: Solutions) -> Solutions:
        """Given solutions, and one more where a better one is found; until the task's deadline if it has one."""

    @property
    def rows(self) -> int:
        return self.start.rows

    def most_solutions(self, horizon: int) -> int:
        return self.start.most_solutions(horizon) + 1

    def trie_memory(self, task: SearchTask) -> int:
        return self.start.trie_memory(task)

    def check(self, task: SearchTask) -> None:
        self.start.check(task)

    def __call__(self, task: SearchTask) -> Solutions:
        if task.start is None:
            return self.improved(task, self.start(task))
        return self.improved(task, known(task.start, task.problem.cost(task.instances, task.start).double()))

    def until(self, task: SearchTask, greedy: Solutions) -> Solutions:
        """Improve the greedy solutions and those of `start` until the task's deadline."""
        found = NOTHING if isinstance(self.start, Greedy) else self.start.found(task)
        return self.improved(task, beside(greedy, found))
