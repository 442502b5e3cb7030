"""Priority dispatching rules for the JSSP [Haupt 1989]."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.jssp import JSSP, State
from problems.jssp.instances import Instance, with_times
from problems.jssp.originals import Original
from problems.jssp.state import earliest_starts

PRIORITIES = {  # what the next operation of each job (all [R, J] float64) is preferred for: the larger, the better
    "SPT": lambda time, work, operations, ready: -time,  # shortest processing time
    "LPT": lambda time, work, operations, ready: time,  # longest processing time
    "MWR": lambda time, work, operations, ready: work,  # most work remaining in the job, with this operation
    "LWR": lambda time, work, operations, ready: -work,  # least work remaining
    "MOR": lambda time, work, operations, ready: operations,  # most operations remaining
    "LOR": lambda time, work, operations, ready: -operations,  # least operations remaining
    "FIFO": lambda time, work, operations, ready: -ready,  # the job that is ready first
}
# Which operations a rule compares [Giffler and Thompson 1960]; the same to FIFO, but for ties.
# "non_delay": those that can start first of all, so that no machine waits while it has something to do.
# "active": those that could start on one machine before the operation that can end first of all would end there; it is
#     the machine of this operation.
GENERATIONS = ("non_delay", "active")
RULES = {f"{rule} ({generation})": (rule, generation) for generation in GENERATIONS for rule in PRIORITIES}


def dispatch(original: Original, name: str) -> Tensor:
    """The jobs [n, T] in the order in which a rule schedules their operations; of equal jobs the first comes first.

    Arguments:
        name: a key of RULES
    """
    rule, generation = RULES[name]
    instance = with_times(original.to_schedule(), Tensor.double)  # whole numbers, so ties are exact
    problem = JSSP([[1, 2]], [[1, 2]])  # its rules are those of all sizes
    state = problem.reset(instance)
    sequence = []
    for _ in range(problem.horizon(instance)):
        job = _next_job(instance, state, rule, generation)
        state = problem.step(instance, state, job)
        sequence.append(job)
    return torch.stack(sequence, dim=1)


def _next_job(instance: Instance, state: State, rule: str, generation: str) -> Tensor:
    """The job [R] whose next operation the rule prefers."""
    ops = instance.times.shape[2]
    following = torch.arange(ops) >= state.next_op[..., None]  # [R, J, O] not scheduled yet
    op = state.next_op.clamp(max=ops - 1)[..., None]
    time = instance.times.gather(2, op).squeeze(2)
    machine = instance.machines.gather(2, op).squeeze(2)  # [R, J]
    begin = earliest_starts(instance, state).masked_fill(state.next_op == ops, torch.inf)  # of finished jobs
    work = (instance.times * following).sum(dim=2)
    priority = PRIORITIES[rule](time, work, following.sum(dim=2).double(), state.job_free)
    candidates = _candidates(begin, begin + time, machine.masked_fill(time == 0, -1), generation)
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
