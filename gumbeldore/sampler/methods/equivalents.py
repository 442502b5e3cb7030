"""Equivalent instances: each is searched, and what is found are solutions of the instance itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from gumbeldore.batches import repeated
from gumbeldore.sampler.methods.method import Rounds, check_count
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask
from gumbeldore.seeding import fold

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class Equivalents(Rounds):
    """A method on instances with the same solutions (`Problem.equivalents`), all of which it searches.

    Arguments:
        method: any method of rounds
        number: of equivalent instances, the instance itself included
    """

    method: Rounds
    number: int

    def __post_init__(self) -> None:
        check_count("equivalents", self.number)
        check_count("rows of all equivalents", int(self.number) * int(self.method.rows))

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.method.random

    @property
    def endless(self) -> bool:  # type: ignore[override]
        return self.method.endless

    @property
    def rows(self) -> int:
        return self.number * self.method.rows

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        others = fold(task.keys[:, None], "equivalents", torch.arange(1, self.number))
        keys = torch.cat([task.keys[:, None], others], dim=1).flatten()
        instances, restored = task.problem.equivalents(task.instances, self.number)
        each = task._replace(instances=instances, encoded=task.policy.encode(instances), keys=keys)
        of_solution = repeated(task.instances, self.rows)
        for found in self.method.rounds(each):
            actions = restored(found.actions.view(len(keys), self.method.rows, -1))
            cost = task.problem.cost(of_solution, actions.flatten(0, 1)).double()
            yield found._replace(actions=actions.view_as(found.actions), cost=cost.view_as(found.cost))

    def count(self, horizon: int) -> int:
        return self.method.count(horizon)

    def most_solutions(self, horizon: int) -> int:
        return self.number * self.method.most_solutions(horizon)

    def trie_memory(self, task: SearchTask) -> int:
        return self.number * self.method.trie_memory(task)

    def check(self, task: SearchTask) -> None:
        most = task.problem.num_equivalents(task.instances)
        if self.number > most:
            rule = f"equivalents must be at most {most} for {task.problem.name} instances of this size"
            raise ValueError(f"{rule}, got {self.number}")
        self.method.check(task)

    def without_nucleus(self) -> Self:
        return replace(self, method=self.method.without_nucleus())
