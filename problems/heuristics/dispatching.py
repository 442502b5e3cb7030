"""Priority dispatching rules for job shops [Haupt 1989]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from problems.jssp import JSSP, State
from problems.jssp.instances import Instance, with_times
from problems.jssp.originals import Original
from problems.jssp.shop import Shop
from problems.jssp.state import earliest_starts


class Asked(NamedTuple):
    """What rules ask of the next operation of each job, all [R, J] float64."""

    time: Tensor
    work: Tensor  # of the job's remaining operations, this one included
    operations: Tensor  # that remain of the job
    ready: Tensor  # when the job is
    due: Tensor  # when the job should have ended
    weight: Tensor  # what a unit of time later costs
    now: Tensor  # [R, 1] when the first operation can start


LOOK_AHEAD = 2.0  # mean processing times of slack at which a job's urgency has fallen to 1/e


def apparent_tardiness_cost(x: Asked) -> Tensor:
    """Weight per time, the less the more slack the job has, in mean processing times [Vepsalainen and Morton 1987]."""
    slack = (x.due - x.work - x.now).clamp(min=0)
    mean = x.time.mean(dim=1, keepdim=True).clamp(min=1e-9)
    return x.weight / x.time.clamp(min=1e-9) * (-slack / (LOOK_AHEAD * mean)).exp()


PRIORITIES: dict[str, Callable[[Asked], Tensor]] = {  # what an operation is preferred for: the larger, the better
    "SPT": lambda x: -x.time,  # shortest processing time
    "LPT": lambda x: x.time,  # longest processing time
    "MWR": lambda x: x.work,  # most work remaining in the job
    "LWR": lambda x: -x.work,  # least work remaining
    "MOR": lambda x: x.operations,  # most operations remaining
    "LOR": lambda x: -x.operations,  # least operations remaining
    "FIFO": lambda x: -x.ready,  # the job that is ready first
}
DUE_PRIORITIES: dict[str, Callable[[Asked], Tensor]] = {  # those that need due dates
    "EDD": lambda x: -x.due,  # earliest due date
    # Modified operation due date [Baker and Bertrand 1982]: no operation is asked to end before it can.
    "MOD": lambda x: -torch.maximum(x.due - (x.work - x.time), x.now + x.time),
    "ATC": apparent_tardiness_cost,
}
# Which operations a rule compares [Giffler and Thompson 1960]; the same to FIFO, but for ties.
# "non_delay": those that can start first of all, so that no machine waits while it has something to do.
# "active": those that could start on one machine before the operation that can end first of all would end there; it is
#     the machine of this operation.
GENERATIONS = ("non_delay", "active")
RULES = {f"{rule} ({generation})": (rule, generation) for generation in GENERATIONS for rule in PRIORITIES}
DUE_RULES = {f"{rule} ({generation})": (rule, generation) for generation in GENERATIONS for rule in DUE_PRIORITIES}


def rules_for(originals: Any) -> list[str]:
    """The names of the rules for instances of a problem's Original: more where these have due dates."""
    return [*RULES, *DUE_RULES] if originals.weight.any() else list(RULES)


class Next(NamedTuple):
    """The next operation of each job, all [R, J]."""

    action: Tensor  # int64 the decision that schedules it
    machine: Tensor  # int64; -1: it takes none, as its time is 0
    begin: Tensor  # float64, inf of a finished job
    time: Tensor  # float64


def dispatch_job_shop(original: Original, name: str) -> Tensor:
    """The jobs [n, T] in the order in which a rule schedules their operations; of equal jobs the first comes first.

    Arguments:
        name: a key of RULES, or with due dates of DUE_RULES
    """
    instance = with_times(original.to_schedule(), Tensor.double)  # whole numbers, so ties are exact
    return dispatch(JSSP([[1, 2]], [[1, 2]]), instance, _next, name)  # its rules are those of all sizes


def dispatch(problem: Shop, instance: Any, following: Callable[[Any, State], Next], name: str) -> Tensor:
    """The decisions [n, T] of a rule.

    Arguments:
        instance: in float64; its remaining work is that on the fastest machines
        following: the next operations in a state
        name: a key of RULES, or with due dates of DUE_RULES
    """
    rule, generation = (RULES | DUE_RULES)[name]
    state, times = problem.reset(instance), instance.shortest()
    sequence = []
    for _ in range(problem.horizon(instance)):
        options = following(instance, state)
        job = _next_job(instance, options, times, state, rule, generation)
        action = options.action.gather(1, job[:, None]).squeeze(1)
        state = problem.step(instance, state, action)
        sequence.append(action)
    return torch.stack(sequence, dim=1)


def _next(instance: Instance, state: State) -> Next:
    ops = instance.times.shape[2]
    op = state.next_op.clamp(max=ops - 1)[..., None]
    time, machine = (field.gather(2, op).squeeze(2) for field in (instance.times, instance.machines))
    begin = earliest_starts(instance, state).masked_fill(state.next_op == ops, torch.inf)
    action = torch.arange(time.shape[1]).expand_as(machine)
    return Next(action, machine.masked_fill(time == 0, -1), begin, time)


def _next_job(instance: Any, options: Next, times: Tensor, state: State, rule: str, generation: str) -> Tensor:
    """The job [R] whose next operation the rule prefers.

    Arguments:
        times: [R, J, O] of the operations, of which remaining work is the sum
    """
    remaining = torch.arange(times.shape[2]) >= state.next_op[..., None]  # [R, J, O]
    work = (times * remaining).sum(dim=2)
    now = options.begin.amin(dim=1, keepdim=True)
    operations, weight = remaining.sum(dim=2).double(), instance.weight.double()
    asked = Asked(options.time, work, operations, state.job_free, instance.due, weight, now)
    priority = (PRIORITIES | DUE_PRIORITIES)[rule](asked)
    candidates = _candidates(options.begin, options.begin + options.time, options.machine, generation)
    return priority.masked_fill(~candidates, -torch.inf).argmax(dim=1)  # the first of equals


def _candidates(begin: Tensor, end: Tensor, machine: Tensor, generation: str) -> Tensor:
    """Which next operations [R, J] the rule compares; they begin and end at inf where a job is finished.

    The machine of an operation that takes none, as its time is 0, is -1.
    """
    if generation == "non_delay":
        return begin == begin.amin(dim=1, keepdim=True)
    first = end.argmin(dim=1, keepdim=True)
    conflicting = (machine == machine.gather(1, first)) & (begin < end.gather(1, first))
    return conflicting.scatter(1, first, True)  # itself, too, if it takes no time
