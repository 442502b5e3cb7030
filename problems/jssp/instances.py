"""What the JSSP and its evaluation sets share: the instance, the schedule of a sequence of jobs, and its check."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

TIME_RANGE = (50, 99)  # an instance's largest time is brought to 99 if it is outside


class Instance(NamedTuple):
    """Operation o of job j is the (o+1)-th of the job.

    An operation of time 0 takes no machine: it can start as soon as its job is ready, and no other operation waits for
    it. So a job skips the machines at which its time is 0.
    """

    times: Tensor  # [R, J, M] float32 processing times, not negative (of random instances above 0), about 1..99
    machines: Tensor  # [R, J, M] int64, a permutation of 0..M-1 for each job


class Original(NamedTuple):
    """Instances of one size in their own units."""

    times: Tensor  # [n, J, M] int64
    machines: Tensor  # [n, J, M] int64
    first: Tensor  # [n] int64 the number of the first machine in the input, 1 in Taillard's files


def random_instances(n: int, jobs: int, machines: int, generator: torch.Generator) -> Instance:
    """n instances with times uniform in 1..99 and the machines in a random order for each job [Taillard 1993]."""
    times = torch.randint(1, 100, (n, jobs, machines), generator=generator).float()
    order = torch.rand(n, jobs, machines, dtype=torch.float32, generator=generator)
    return Instance(times, order.argsort(dim=2))


def check_instance(instance: Instance) -> None:
    """Raises ValueError unless every job visits each machine once, in times that are not negative."""
    if instance.machines.shape != instance.times.shape:
        shapes = f"{list(instance.times.shape)} and {list(instance.machines.shape)}"
        raise ValueError(f"times and machines must have the same shape, got {shapes}")
    expected = torch.arange(instance.times.shape[2])
    visits = (instance.machines.sort(dim=2).values == expected).flatten(1).all(dim=1)
    lasts = (instance.times.isfinite() & (instance.times >= 0)).flatten(1).all(dim=1)
    for well, rule in ((visits, "jobs must visit each machine once"), (lasts, "times must be finite and not negative")):
        if not well.all():
            raise ValueError(f"{rule}; not so in instance {int((~well).nonzero()[0])}")


def lower_bound(times: Tensor, machines: Tensor) -> Tensor:
    """The most work of a job or a machine [R], which no makespan is below; times and machines [R, J, M]."""
    load = torch.zeros_like(times[:, 0]).scatter_add_(1, machines.flatten(1), times.flatten(1))
    return torch.maximum(times.sum(dim=2).amax(dim=1), load.amax(dim=1))


def machine_of(instance: Instance, operations: Tensor) -> Tensor:
    """The machine of each of the operations [R, n], which are numbered job * M + index in the job.

    An operation of time 0 takes no machine. It has one to itself, which no other operation has: M + its place in n.
    """
    times, machine = (field.flatten(1).gather(1, operations) for field in instance)
    own = torch.arange(operations.shape[1], device=operations.device) + instance.times.shape[2]
    return torch.where(times > 0, machine, own)


def for_network(times: Tensor) -> Tensor:
    """Times [n, J, M] float32; where an instance's largest is not 50..99 already, multiplied so that it is 99."""
    largest = times.amax(dim=(1, 2), keepdim=True).double()
    low, high = TIME_RANGE
    fits = (largest >= low) & (largest <= high) | (largest == 0)
    return torch.where(fits, times.double(), times.double() * high / largest).float()


class Timeline(NamedTuple):
    """What a sequence of q decisions does, each operation started as early as possible."""

    operations: Tensor  # [R, q] int64 scheduled by each decision; operation o of job j is j * M + o
    starts: Tensor  # [R, q] of them
    job_free: Tensor  # [R, J] end of the job's last one
    machine_free: Tensor  # [R, M] end of the machine's last one


def timeline(times: Tensor, machines: Tensor, actions: Tensor) -> Timeline:
    """The timeline of `actions` [R, q], q >= 1: the job whose next operation comes next, none more than M times."""
    rows, jobs, ops = times.shape
    # Sorted by job, the first decision of each job stands where the earlier jobs' end: its operation 0.
    order = actions.argsort(dim=1, stable=True)
    count_up = torch.arange(order.shape[1], device=order.device).expand_as(order)
    place = torch.empty_like(order).scatter_(1, order, count_up)
    count = torch.zeros(rows, jobs, dtype=torch.int64, device=actions.device)
    count.scatter_add_(1, actions, torch.ones_like(actions))
    operations = actions * ops + place - (count.cumsum(dim=1) - count).gather(1, actions)
    duration = times.flatten(1).gather(1, operations)
    machine = machines.flatten(1).gather(1, operations)
    # Jobs and machines side by side: few kernels in the loop, which is all that cannot be done at once.
    free = times.new_zeros(rows, jobs + ops)
    starts = []
    needs = torch.where(duration > 0, jobs + machine, actions)  # an operation of time 0 needs its job alone
    pairs = torch.stack([actions, needs], dim=2)  # [R, q, 2]
    for needed, takes in zip(pairs.unbind(1), duration.split(1, 1), strict=True):
        start = free.gather(1, needed).amax(dim=1, keepdim=True)  # [R, 1]
        starts.append(start)
        free.scatter_(1, needed, (start + takes).expand(-1, 2))
    return Timeline(operations, torch.cat(starts, dim=1), free[:, :jobs], free[:, jobs:])


def schedule(times: Tensor, machines: Tensor, actions: Tensor) -> Tensor:
    """Start times [R, J, M] when operations are started as early as possible, in the order of `actions` [R, J*M].

    An action is the job whose next operation comes next. Raises ValueError unless every job occurs M times.
    """
    rows, jobs, ops = times.shape
    if actions.dim() != 2 or actions.shape[1] != jobs * ops:
        raise ValueError(f"{jobs} jobs of {ops} operations take {jobs * ops} actions, got shape {tuple(actions.shape)}")
    expected = torch.arange(jobs, device=actions.device).repeat_interleave(ops)
    wrong = (actions.sort(dim=1).values != expected).any(dim=1)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(f"row {row} does not schedule each job 0..{jobs - 1} {ops} times: {actions[row].tolist()}")
    done = timeline(times, machines, actions)
    return torch.empty_like(done.starts).scatter_(1, done.operations, done.starts).view(rows, jobs, ops)


def check_schedule(times: Tensor, machines: Tensor, start: Tensor) -> None:
    """Raises ValueError unless start times [R, J, M] are a feasible schedule; independent of how they were found.

    Nothing starts before 0 or before the job's operation before it has ended, and on each machine no two operations
    overlap.
    """
    end = start + times
    _refuse(start < 0, "starts before time 0")
    _refuse(start[:, :, 1:] < end[:, :, :-1], "starts before its job is ready")
    start, end = (moment.masked_fill(times == 0, 0) for moment in (start, end))  # these overlap with no operation
    by_machine = machines.argsort(dim=2)  # [R, J, M] the operation of each job on machine m
    start, end = start.gather(2, by_machine).mT, end.gather(2, by_machine).mT  # [R, M, J]
    order = end.argsort(dim=2)
    order = order.gather(2, start.gather(2, order).argsort(dim=2, stable=True))  # operations of no time come first
    _refuse(start.gather(2, order)[..., 1:] < end.gather(2, order)[..., :-1], "overlaps another on its machine")


def _refuse(wrong: Tensor, rule: str) -> None:
    if wrong.any():
        raise ValueError(f"row {int(wrong.nonzero()[0, 0])}: an operation {rule}")
