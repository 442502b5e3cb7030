"""The classical heuristics of the FJSP: dispatching rules, each operation on the machine where it ends first."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.fjsp.instances import Instance
from problems.fjsp.originals import Original
from problems.fjsp.problem import FJSP
from problems.fjsp.state import next_starts, next_times
from problems.heuristics.dispatching import Next, dispatch, rules_for
from problems.heuristics.heuristic import HEURISTICS, Heuristics
from problems.jssp.state import State


def dispatch_flexible(original: Original, name: str) -> Tensor:
    """The decisions [n, T] of a rule, a key of RULES or DUE_RULES. Remaining work is that on the fastest machines."""
    instance = original.to_schedule()  # its rules are those of all sizes
    return dispatch(FJSP([[1, 2]], [[1, 2]]), instance, _next, name)


def _next(instance: Instance, state: State) -> Next:
    jobs, machines = instance.times.shape[1], instance.times.shape[3]
    times, starts = next_times(instance, state), next_starts(instance, state)
    machine = (starts + times).argmin(dim=2)  # the first of equals
    begin, time = (field.gather(2, machine[..., None]).squeeze(2) for field in (starts, times))
    begin = begin.masked_fill(state.next_op == instance.times.shape[2], torch.inf)
    action = torch.arange(jobs) * machines + machine
    return Next(action, machine.masked_fill(time == 0, -1), begin, time)


HEURISTICS["fjsp"] = Heuristics(rules_for, dispatch_flexible, together=256)
