"""Greedy decoding: the most likely decision at each step, or several independent decisions of one forward pass."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from gumbeldore.batches import batch_size, take
from gumbeldore.interfaces import HasIndependentDecisions
from gumbeldore.sampler.beam import NO_COST, NO_PROBABILITIES, Count, OutOfTime, check_instances, log_probabilities
from gumbeldore.sampler.methods.method import Rounds, at_least_one
from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.task import SearchTask

MARGIN = 0.5  # nats that a further decision of a pass may be less likely than the first (docs/decisions.md)
NO_ACTION = -1
FIRST_DECISIONS = 20  # before them nobody can say how long all will take


@dataclass(frozen=True)
class Greedy(Rounds):
    """The most likely action at each step.

    Arguments:
        decisions_per_pass: where a problem has independent decisions, a forward pass gives up to so many: the most
            likely one, then others whose log-probability is at most 0.5 lower; of job shops, for different jobs and
            machines. Not in the paper.
    """

    random: ClassVar[bool] = False
    endless: ClassVar[bool] = False

    decisions_per_pass: int = at_least_one(1)

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
        if self.decisions_per_pass > 1 and not isinstance(task.problem, HasIndependentDecisions):
            rule = f"{task.problem.name} has no independent decisions, so decisions_per_pass must be 1"
            raise ValueError(f"{rule}, got {self.decisions_per_pass}")

    def rounds(self, task: SearchTask) -> Iterator[Round]:
        """The greedy solutions; their log-probabilities are NaN if a pass gave several of their decisions.

        At each step a row takes its next planned decision, and asks the policy for a new plan if it has none. So all
        rows are at the same step, although their plans have different lengths.

        Raises OutOfTime at the deadline, or as soon as the solutions are sure to be late; InstanceError if the
        policy gives no usable probabilities or the problem no finite cost.
        """
        problem, instances, device = task.problem, task.instances, task.keys.device
        most = min(self.decisions_per_pass, task.horizon, problem.num_actions(instances))
        state = problem.reset(instances)
        plan = torch.full((task.batch, most), NO_ACTION, device=device)
        log_prob = torch.zeros(task.batch, dtype=torch.float64, device=device)
        broken = torch.zeros(task.batch, dtype=torch.bool, device=device)
        count, decisions, begin = Count(), [], time.monotonic()
        for depth in range(task.horizon):
            if _is_late(task, begin, depth):
                raise OutOfTime(count)
            legal = problem.mask(instances, state)  # [B, A]
            planned = (plan[:, 0] != NO_ACTION) & legal.gather(1, plan[:, :1].clamp(min=0)).squeeze(1)
            plan.masked_fill_(~planned[:, None], NO_ACTION)
            choices = legal.sum(dim=1)
            broken |= choices == 0
            choice = choices > 1
            rows = (choice & ~planned).nonzero().squeeze(1)  # the one host sync of a step
            if len(rows):
                log_pi = _log_pi(task, state, legal, rows)
                plan[rows], likeliest = _plan(task, state, rows, log_pi, most)
                broken[rows] |= ~likeliest.isfinite()
                log_prob[rows] += likeliest
            count = count.plus(Count(len(rows), forced=(~choice & ~planned).sum()))
            log_prob.masked_fill_(planned, math.nan)
            decisions.append(plan[:, 0].where(plan[:, 0] != NO_ACTION, legal.int().argmax(dim=1)))
            plan = pad(plan[:, 1:], (0, 1), value=NO_ACTION)
            if depth + 1 < task.horizon:
                state = problem.step(instances, state, decisions[-1])
        check_instances(task, broken, NO_PROBABILITIES)
        actions = torch.stack(decisions, dim=1)
        cost = problem.cost(instances, actions).double()
        check_instances(task, ~cost.isfinite(), NO_COST)
        actions, cost, log_prob, valid = (x[:, None] for x in (actions, cost, log_prob, torch.ones_like(broken)))
        yield Round(actions, actions, cost, log_prob, log_prob, log_prob, valid, count)


def _is_late(task: SearchTask, begin: float, depth: int) -> bool:
    """Whether the solutions will not be complete by the deadline, after so many decisions.

    A decision is taken to cost in proportion to those that remain, as in large instances. The first ones are slower.
    """
    now = time.monotonic()
    if task.deadline == math.inf or now >= task.deadline or depth < FIRST_DECISIONS:
        return now >= task.deadline
    share = 1 - (1 - depth / task.horizon) ** 2  # of the work that is done
    return now + (now - begin) * (1 / share - 1) > task.deadline


def _log_pi(task: SearchTask, state: Any, legal: Tensor, rows: Tensor) -> Tensor:
    """The log-probabilities [n, A] of the actions of some rows, numbers int64 [n]."""
    legal = legal.index_select(0, rows)
    return log_probabilities(task.policy, _rows(task.encoded, rows), _rows(state, rows), legal)


def _plan(task: SearchTask, state: Any, rows: Tensor, log_pi: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Up to `most` decisions of some rows [n, most], all independent, then NO_ACTION; the first one's log pi [n].

    The likeliest decision is the first one.
    """
    likeliest, action = log_pi.max(dim=1, keepdim=True)
    plan = [action.where(likeliest.isfinite(), NO_ACTION)]
    if most > 1 and isinstance(task.problem, HasIndependentDecisions):
        resources = task.problem.resources(_rows(task.instances, rows), _rows(state, rows))  # [n, A, k]
        left = log_pi.masked_fill(log_pi < likeliest - MARGIN, -math.inf)
        for _ in range(most - 1):
            taken = resources.gather(1, action[..., None].expand(-1, -1, resources.shape[2]))  # [n, 1, k]
            left = left.masked_fill((resources == taken).any(dim=2), -math.inf)
            best, action = left.max(dim=1, keepdim=True)
            plan.append(action.where(best.isfinite(), NO_ACTION))
    return pad(torch.cat(plan, dim=1), (0, most - len(plan)), value=NO_ACTION), likeliest.squeeze(1)


def _rows(tensors: Any, rows: Tensor) -> Any:
    """Some rows of a NamedTuple, numbers int64 [n] ascending; all of them as they are."""
    return tensors if len(rows) == batch_size(tensors) else take(tensors, rows)
