"""The best solution of simple rules, from which a search can begin at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from gumbeldore.interfaces import HasRules
from gumbeldore.sampler.beam import Count
from gumbeldore.sampler.methods.method import Rounds
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask


@dataclass(frozen=True)
class Rules(Rounds):
    """The best solution of the problem's rules, such as dispatching rules; the policy is not asked."""

    random: ClassVar[bool] = False
    endless: ClassVar[bool] = False

    @property
    def rows(self) -> int:
        return 1

    def count(self, horizon: int) -> int:
        return 1

    def most_solutions(self, horizon: int) -> int:
        return 1

    def trie_memory(self, task: SearchTask) -> int:
        """There is no trie; the decisions take memory, too."""
        return task.horizon * torch.int64.itemsize

    def check(self, task: SearchTask) -> None:
        if not isinstance(task.problem, HasRules):
            raise ValueError(f"{task.problem.name} has no rules to start from")
        task.problem.prepare_rules()

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        assert isinstance(task.problem, HasRules)
        actions = task.problem.by_rules(task.instances)
        cost = task.problem.cost(task.instances, actions).double()
        unknown, valid = torch.full_like(cost, math.nan), torch.ones_like(cost, dtype=torch.bool)
        actions, cost, unknown, valid = (x[:, None] for x in (actions, cost, unknown, valid))
        yield Round(actions, actions, cost, unknown, unknown, unknown, valid, Count())
