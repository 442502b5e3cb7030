"""Searching until a time limit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from gumbeldore.interfaces import HasRules
from gumbeldore.runtime.checked import positive
from gumbeldore.sampler.methods.greedy import Greedy
from gumbeldore.sampler.methods.method import Method, Timed
from gumbeldore.sampler.methods.rules import Rules
from gumbeldore.sampler.solutions import Solutions
from gumbeldore.sampler.task import SearchTask


@dataclass(frozen=True)
class Anytime(Method):
    """The greedy solution, then as many rounds, or reconstructions, of a method as there is time for.

    The greedy solution counts where it is better than all others, and is the only one if no round ends in time. A round
    that lasts longer is abandoned before its next step. A given start takes the place of the greedy solution; so does
    the best solution of rules if the problem has some, and the greedy solution does not fit into the time.

    Arguments:
        method: with rounds, or a reconstruction
        time_limit: seconds per instance
        greedy: how the greedy solution is decoded
    """

    method: Timed
    time_limit: float = positive()
    greedy: Greedy = Greedy()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.method, Timed) and self.method.endless):
            rule = "a time_limit is for a method with rounds or a reconstruction, which finds more in more time"
            raise ValueError(f"{rule}, got {self.method!r}")

    def __call__(self, task: SearchTask) -> Solutions:
        limited = task._replace(deadline=time.monotonic() + task.batch * self.time_limit)
        if task.start is not None or not self.method.needs_greedy:
            return self.method(limited)
        return self.method.until(limited, self._first(limited))

    def _first(self, task: SearchTask) -> Solutions:
        """The greedy solutions; where the problem has rules, theirs if the greedy ones would take too long."""
        if not isinstance(task.problem, HasRules):
            return self.greedy(task._replace(deadline=math.inf))
        now = time.monotonic()
        greedy = self.greedy.found(task._replace(deadline=now + self.method.share_of_start * (task.deadline - now)))
        return greedy.solutions(task.batch) if greedy.rounds else Rules()(task)

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.method.random

    @property
    def takes_start(self) -> bool:  # type: ignore[override]
        return self.method.takes_start

    @property
    def rows(self) -> int:
        return self.method.rows

    def most_solutions(self, horizon: int) -> int:
        return self.method.most_solutions(horizon)

    def trie_memory(self, task: SearchTask) -> int:
        return self.method.trie_memory(task)

    def check(self, task: SearchTask) -> None:
        self.method.check(task)
        self.greedy.check(task)
        if isinstance(task.problem, HasRules):
            task.problem.prepare_rules()
