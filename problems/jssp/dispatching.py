"""Priority dispatching rules for job shops, flexible ones included [Haupt 1989]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gumbeldore.runtime.jit import compiled, compiling
from problems.jssp.instances import lengths_of

# What an operation is preferred for: the shortest or longest time; the most or least work, or operations, that remain
# of the job; the job that is ready first.
PRIORITIES = ("SPT", "LPT", "MWR", "LWR", "MOR", "LOR", "FIFO")
# And with due dates: the earliest one; the modified operation due date [Baker and Bertrand 1982]; the apparent
# tardiness cost [Vepsalainen and Morton 1987].
DUE_PRIORITIES = ("EDD", "MOD", "ATC")
SPT, LPT, MWR, LWR, MOR, LOR, FIFO, EDD, MOD, ATC = range(10)
LOOK_AHEAD = 2.0  # mean processing times of slack at which a job's urgency has fallen to 1/e
# Which operations a rule compares [Giffler and Thompson 1960]; the same to FIFO, but for ties.
# "non_delay": those that can start first of all, so that no machine waits while it has something to do.
# "active": those that could start on one machine before the operation that can end first of all would end there; it is
#     the machine of this operation.
GENERATIONS = ("non_delay", "active")
RULES = {f"{rule} ({generation})": (rule, generation) for generation in GENERATIONS for rule in PRIORITIES}
DUE_RULES = {f"{rule} ({generation})": (rule, generation) for generation in GENERATIONS for rule in DUE_PRIORITIES}


def rules_for(instance: Any) -> list[str]:
    """The names of the rules for instances, or for a problem's Original: more where these have due dates."""
    return [*RULES, *DUE_RULES] if instance.weight.any() else list(RULES)


def dispatched(instance: Any, name: str) -> tuple[Tensor, Tensor]:
    """The jobs [R, T] in the order in which a rule schedules their operations, and the machines that it takes.

    An operation goes to the machine where it ends first. Of equal machines and jobs the first one comes first.

    Arguments:
        name: a key of RULES, or with due dates of DUE_RULES
    """
    rule, generation = (RULES | DUE_RULES)[name]
    number = (*PRIORITIES, *DUE_PRIORITIES).index(rule), generation == "active"
    waits = instance.waits.flatten(1).gather(1, instance.operations)
    times, machines = instance.options()
    fields = times, waits, instance.release, instance.machine_release, instance.due, instance.weight
    arrays = [field.double().numpy() for field in fields]
    arrays = [lengths_of(instance).numpy(), machines.numpy(), *arrays]
    with compiling(_dispatch, "the dispatching rules"):
        found = [_dispatch(*(array[row] for array in arrays), *number) for row in range(len(times))]
    jobs, chosen = (torch.from_numpy(np.stack(each)) for each in zip(*found, strict=True))
    return jobs, chosen


@compiled
def _dispatch(lengths, machines, times, waits, release, machine_release, due, weight, rule, active):
    """Of one job shop, the jobs [n] of a rule's decisions and their machines.

    Arguments:
        lengths: operations of each job
        machines, times: [n, k] of the operations, one job after the other
    """
    count, jobs = len(times), len(lengths)
    last = np.cumsum(lengths) - 1
    place, ready, free = last - lengths + 1, release.copy(), machine_release.copy()  # of the next operations
    work = np.zeros(count)  # of an operation and those after it in the job, on the fastest machines
    for job in range(jobs):
        after = 0.0
        for x in range(last[job], last[job] - lengths[job], -1):
            after += times[x].min()
            work[x] = after
    begin, end, time, machine = np.empty(jobs), np.empty(jobs), np.zeros(jobs), np.empty(jobs, np.int64)
    sequence, chosen = np.empty(count, np.int64), np.empty(count, np.int64)
    for step in range(count):
        now, first = np.inf, -1
        for job in range(jobs):
            begin[job] = end[job] = np.inf
            if lengths[job] == 0:
                continue
            x = min(place[job], last[job])
            for option in range(times.shape[1]):
                on, takes = machines[x, option], times[x, option]
                start = max(ready[job], free[on]) if takes > 0 else ready[job]
                if start + takes < end[job]:
                    begin[job], end[job], time[job], machine[job] = start, start + takes, takes, on
            if place[job] > last[job]:  # finished; its last operation counts in the mean time all the same
                begin[job] = end[job] = np.inf
            now = min(now, begin[job])
            if first < 0 or end[job] < end[first]:
                first = job
        mean, best, most = max(time.mean(), 1e-9), -1, -np.inf
        for job in range(jobs):
            rivals = time[job] > 0 and time[first] > 0 and machine[job] == machine[first]
            compared = job == first or rivals and begin[job] < end[first] if active else begin[job] == now
            if place[job] > last[job] or not compared:
                continue
            x = place[job]
            value = _priority(rule, time[job], work[x], last[job] - x + 1, ready[job], due[job], weight[job], now, mean)
            if best < 0 or value > most:
                best, most = job, value
        sequence[step], chosen[step] = best, machine[best]
        ready[best] = end[best] + waits[place[best]]
        if time[best] > 0:
            free[machine[best]] = end[best]
        place[best] += 1
    return sequence, chosen


@compiled
def _priority(rule, time, work, operations, ready, due, weight, now, mean):
    """The larger it is, the sooner the operation comes; `now` is when the first one can start."""
    if rule == SPT or rule == LPT:
        return -time if rule == SPT else time
    if rule == MWR or rule == LWR:
        return work if rule == MWR else -work
    if rule == MOR or rule == LOR:
        return float(operations if rule == MOR else -operations)
    if rule == FIFO:
        return -ready
    if rule == EDD:
        return -due
    if rule == MOD:  # no operation is asked to end before it can
        return -max(due - (work - time), now + time)
    slack = max(due - work - now, 0.0)
    return weight / max(time, 1e-9) * math.exp(-slack / (LOOK_AHEAD * mean))
