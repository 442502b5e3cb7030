"""The schedule of a sequence of jobs, and the check of a schedule."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from problems.common.groups import ranks_of, sizes_of
from problems.jssp.instances import Instance, is_there, lengths_of


class Timeline(NamedTuple):
    """What a sequence of q decisions does, each operation started as early as possible."""

    operations: Tensor  # [R, q] int64 the numbers of those scheduled by each decision
    starts: Tensor  # [R, q] of them
    job_free: Tensor  # [R, J] when the job's next operation can start: the last one has ended, and the wait after it
    machine_free: Tensor  # [R, M] end of the machine's last operation, before there is one its release


def operations_of(instance: Any, jobs: Tensor) -> Tensor:
    """The number [R, q] of the operation that each decision schedules, the next one of its job [R, q]."""
    _, count, ops = instance.waits.shape
    first = (ops - lengths_of(instance)).gather(1, jobs)
    return jobs * ops + first + ranks_of(jobs, sizes_of(jobs, count))


def timeline(instance: Instance, actions: Tensor) -> Timeline:
    """The timeline of `actions` [R, q], q >= 1: the job whose next operation comes next, none too often."""
    jobs = instance.times.shape[1]
    operations = operations_of(instance, actions)
    duration, wait, machine = (
        field.flatten(1).gather(1, operations) for field in (instance.times, instance.waits, instance.machines)
    )
    # Jobs and machines side by side: few kernels in the loop, which is all that cannot be done at once.
    free = torch.cat([instance.release, instance.machine_release], dim=1)
    starts = []
    needs = torch.where(duration > 0, jobs + machine, actions)  # an operation of time 0 needs its job alone
    pairs = torch.stack([actions, needs], dim=2)  # [R, q, 2]
    # For an operation of time 0 both entries are its job's, and both must be the wait.
    blocked = torch.stack([duration + wait, torch.where(duration > 0, duration, wait)], dim=2)
    for needed, takes in zip(pairs.unbind(1), blocked.unbind(1), strict=True):
        start = free.gather(1, needed).amax(dim=1, keepdim=True)  # [R, 1]
        starts.append(start)
        free.scatter_(1, needed, start + takes)
    return Timeline(operations, torch.cat(starts, dim=1), free[:, :jobs], free[:, jobs:])


def schedule(instance: Instance, actions: Tensor) -> Tensor:
    """Start times [R, J, O] when operations are started as early as possible, in the order of `actions` [R, T].

    An action is the job whose next operation comes next. Where there is no operation, the start is 0. Raises ValueError
    as `check_jobs` does.
    """
    check_jobs(instance, actions)
    rows, jobs, ops = instance.times.shape
    done = timeline(instance, actions)
    starts = torch.zeros_like(instance.times).flatten(1)
    return starts.scatter_(1, done.operations, done.starts).view(rows, jobs, ops)


def check_jobs(instance: Any, jobs: Tensor) -> None:
    """Raises ValueError unless every job occurs in the decisions [R, T] as often as it has operations."""
    _, count, ops = instance.waits.shape
    total = instance.operations.shape[1]
    if jobs.dim() != 2 or jobs.shape[1] != total:
        raise ValueError(f"{total} operations need {total} actions, got shape {tuple(jobs.shape)}")
    wrong = (jobs.sort(dim=1).values != instance.operations // ops).any(dim=1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        rule = f"row {row} does not schedule each job 0..{count - 1} as often as it has operations"
        raise ValueError(f"{rule}: {jobs[row].tolist()}")


def check_schedule(instance: Instance, start: Tensor) -> None:
    """Raises ValueError unless start times [R, J, O] are a feasible schedule; independent of how they were found.

    Nothing starts before its job or its machine is released, nor before the job's operation before it has ended and the
    wait after it is over; on each machine no two operations overlap.
    """
    rows, jobs, ops = start.shape
    there = is_there(instance)
    takes = there & (instance.times > 0)
    end = start + instance.times
    _refuse(there & (start < instance.release[..., None]), "starts before its job is released")
    released = instance.machine_release.gather(1, instance.machines.flatten(1)).view_as(start)
    _refuse(takes & (start < released), "starts before its machine is released")
    ready = (end + instance.waits)[:, :, :-1]
    _refuse(there[:, :, :-1] & (start[:, :, 1:] < ready), "starts before its job is ready")
    machines = instance.machines.masked_fill(~takes, -1)
    _refuse(overlapping(machines, start, end), "overlaps another on its machine")


def overlapping(machines: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """An operation [R, J, O], at least, of each machine on which two overlap; machine -1: it takes none.

    It starts before the one before it has ended.
    """
    machine, begins, ends = (field.flatten(1) for field in (machines, start, end))
    order = order_by(machine, begins, ends)
    machine, begins, ends = (field.gather(1, order) for field in (machine, begins, ends))
    same = (machine[:, 1:] == machine[:, :-1]) & (machine[:, 1:] >= 0)
    wrong = F.pad(same & (begins[:, 1:] < ends[:, :-1]), (1, 0))
    return torch.zeros_like(wrong).scatter(1, order, wrong).view_as(start)


def order_by(*keys: Tensor) -> Tensor:
    """Places [R, n] in the order of the first key [R, n]; equal ones in that of the second, and so on."""
    order = keys[-1].argsort(dim=1, stable=True)
    for key in keys[-2::-1]:
        order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
    return order


def _refuse(wrong: Tensor, rule: str) -> None:
    if wrong.any():
        raise ValueError(f"row {int(wrong.nonzero()[0, 0])}: an operation {rule}")
