"""The window: a policy sees the next operations of some jobs, and can choose these jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from problems.common.view import check_view
from problems.jssp.state import State

LARGE = 5000  # operations: of larger shops, evaluations show LARGE_VIEW where nothing else is said (docs/decisions.md)


class Window(NamedTuple):
    """How much of a shop is in view; None: all of it."""

    operations: int | None  # of a job, the next ones
    jobs: int | None  # those whose next operation can start first

    @classmethod
    def of(cls, operations: int | str | None, jobs: int | str | None) -> Window:
        """Raises ValueError for what is neither a number, nor None or `all`."""
        return cls(check_view("window", operations), check_view("jobs_in_view", jobs))

    def view(self, state: State, starts: Callable[[], Tensor], ops: int) -> Tensor:
        """The operations in view, ascending [R, v], of those that remain [R, n]; v = min(n, jobs * operations).

        Where jobs have fewer left, more is in view: of other jobs, then of the same ones.

        Arguments:
            starts: gives [R, J] when the next operation of each job can start; asked if not all jobs are in view
            ops: O, the places of a job
        """
        jobs = state.next_op.shape[1]
        depth, width = min(self.operations or ops, ops), min(self.jobs or jobs, jobs)
        remaining, next_op = state.remaining, state.next_op
        if remaining.shape[1] <= width * depth:
            return remaining
        job, place = remaining // ops, remaining % ops
        rank = torch.arange(jobs, device=job.device).expand_as(next_op)
        if width < jobs:
            order = starts().masked_fill(next_op == ops, torch.inf).argsort(dim=1, stable=True)
            rank = torch.empty_like(order).scatter_(1, order, rank)
        rank, away = rank.gather(1, job), place - next_op.gather(1, job)
        outside = (rank >= width) | (away >= depth)
        key = outside * (jobs * ops) + away * jobs + rank  # no two are equal
        closest = key.topk(width * depth, dim=1, largest=False, sorted=False).indices
        return remaining.gather(1, closest.sort(dim=1).values)


LARGE_VIEW = Window(operations=5, jobs=50)
