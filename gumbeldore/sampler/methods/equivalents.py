"""Equivalent instances: each is searched, and what is found are solutions of the instance itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gumbeldore.batches import repeated
from gumbeldore.runtime.checked import check_integer
from gumbeldore.sampler.methods.method import MOST, Rounds, at_least_one
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.seeding import fold


@dataclass(frozen=True)
class Equivalents(Rounds):
    """A method on instances with the same solutions (`Problem.equivalents`), all of which it searches.

    Arguments:
        method: any method of rounds
        equivalents: how many equivalent instances are searched, the instance itself included
    """

    method: Rounds
    equivalents: int = at_least_one(1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.method, Rounds):
            raise ValueError(f"equivalents are for a method of rounds, without a time limit, got {self.method!r}")
        check_integer("equivalents * beam_width", int(self.equivalents) * int(self.method.rows), 1, MOST)

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.method.random

    @property
    def endless(self) -> bool:  # type: ignore[override]
        return self.method.endless

    @property
    def rows(self) -> int:
        return self.equivalents * self.method.rows

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        others = fold(task.keys[:, None], "equivalents", torch.arange(1, self.equivalents))
        keys = torch.cat([task.keys[:, None], others], dim=1).flatten()
        instances, restored = task.problem.equivalents(task.instances, self.equivalents)
        each = task._replace(instances=instances, encoded=task.policy.encode(instances), keys=keys)
        of_solution = repeated(task.instances, self.rows)
        for found in self.method.rounds(each):
            actions = restored(found.actions.view(len(keys), self.method.rows, -1))
            cost = task.problem.cost(of_solution, actions.flatten(0, 1)).double()
            yield found._replace(actions=actions.view_as(found.actions), cost=cost.view_as(found.cost))

    def count(self, horizon: int) -> int:
        return self.method.count(horizon)

    def most_solutions(self, horizon: int) -> int:
        return self.equivalents * self.method.most_solutions(horizon)

    def trie_memory(self, task: SearchTask) -> int:
        return self.equivalents * self.method.trie_memory(task)

    def check(self, task: SearchTask) -> None:
        most = task.problem.num_equivalents(task.instances)
        if self.equivalents > most:
            rule = f"equivalents must be at most {most} for these {task.problem.name} instances"
            raise ValueError(f"{rule}, got {self.equivalents}")
        self.method.check(task)
