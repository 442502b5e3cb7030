"""What a partial schedule implies for the operations that remain: earliest starts, work to come, lower bounds."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from models.shop_policy import heads_of, limit_waits
from problems.jssp import State
from problems.jssp.instances import Instance
from problems.jssp.state import next_releases, places_of_view

LOOKAHEAD_FEATURES = 8  # of each operation


class JobShopContext(NamedTuple):
    """What the network of the job shop knows of R instances: fields as those of `Instance`, and what follows."""

    times: Tensor  # [R, J, O]
    machines: Tensor  # [R, J, O]
    release: Tensor  # [R, J]
    machine_release: Tensor  # [R, M]
    waits: Tensor  # [R, J, O]
    due: Tensor  # [R, J], not before -bound: of a job that is late in any case, an earlier date changes no decision
    weight: Tensor  # [R, J]
    queues: Tensor  # [R, M, S]
    bound: Tensor  # [R] what the work takes at least (`work_bound`); four units of the features
    before: Tensor  # [R, J * O] work and waits of the job before each operation
    after: Tensor  # [R, J * O] and after it
    machine: Tensor  # [R, J * O] int64 of each operation (`own_machines`)


def own_machines(instance: Instance) -> Tensor:
    """The machine of each operation [R, J * O]; M + its number for those of time 0, which take no machine."""
    times, machines = instance.times.flatten(1), instance.machines.flatten(1)
    own = torch.arange(times.shape[1], device=times.device) + instance.machine_release.shape[1]
    return machines.where(times > 0, own)


class Outlook(NamedTuple):
    """What a partial schedule implies for the operations that remain, all [R, n]."""

    job: Tensor  # int64
    machine: Tensor  # int64 as in the context
    times: Tensor
    start: Tensor  # earliest start of the job's next operation
    head: Tensor  # earliest start of the operation itself, after the job's operations before it
    tail: Tensor  # work and waits of the job after the operation
    busy: Tensor  # when the machine is free


def outlook(context: JobShopContext, state: State) -> Outlook:
    """The outlook of all operations that remain, in view or not."""
    fields = context.machine, context.times.flatten(1), context.after
    machine, times, tail = (field.gather(1, state.remaining) for field in fields)
    start, head = heads_of(context, state)
    busy = F.pad(state.machine_free, (0, context.machine.shape[1])).gather(1, machine)
    return Outlook(state.remaining // context.times.shape[2], machine, times, start, head, tail, busy)


def makespan_features(context: JobShopContext, state: State) -> list[Tensor]:
    """Eight features [R, v] of the operations in view, in quarters of the instance's bound.

    All operations that remain count, in view or not.

    The unit stays the same from the first decision to the last, and makes small and large instances alike.

    The features of an operation: the earliest start of its job's next operation, its own earliest start (its head), the
    work and waits of its job after it (its tail), how long its machine stays busy, four lower bounds on the makespan.
    """
    _, machine, times, start, head, tail, busy = outlook(context, state)
    bounds = lower_bounds(machines_of(context), machine, times, torch.maximum(head, busy), tail)
    return _cropped(context, state, [start, head, tail, busy, *bounds])


def due_date_features(context: JobShopContext, state: State) -> list[Tensor]:
    """Eight features [R, v] as `makespan_features`, for the weighted tardiness; the state's times are absolute.

    The bounds on the makespan, which say nothing here, are replaced: by the work that remains on the operation's
    machine, by how late its job will be at least (below 0: by its slack), by this time if it is late, and by the weight
    of its job, of which the mean counts 1. More slack than the bound makes no difference, since such a job can wait for
    all others, nor does more lateness by a wait for a release.
    """
    finished = state.next_op == context.times.shape[2]
    now = state.job_free.masked_fill(finished, torch.inf).amin(dim=1, keepdim=True)
    job, machine, times, start, head, tail, busy = outlook(context, state)
    load = of_machines(machines_of(context), machine, times, "sum")
    bound = context.bound[:, None]
    near = limit_waits(state.job_free, next_releases(context, state), now + bound)
    far = (state.job_free - near).gather(1, job)  # of the wait for a release, what is beyond the bound
    late = head + times + tail - context.due.gather(1, job)
    late = torch.minimum(late, torch.maximum(late - far, bound)).clamp(min=-bound)
    mean = context.weight.mean(dim=1, keepdim=True).clamp(min=1e-9)
    weight = (context.weight / mean).gather(1, job) * (bound / 4)
    free = limit_waits(state.machine_free, context.machine_release, now + bound)
    busy = busy - F.pad(state.machine_free - free, (0, context.machine.shape[1])).gather(1, machine)
    relative = [start - now - far, head - now - far, tail, (busy - now).clamp(min=0)]
    return _cropped(context, state, [*relative, load, late, late.clamp(min=0), weight])


def _cropped(context: JobShopContext, state: State, features: list[Tensor]) -> list[Tensor]:
    """The features [R, n] of the operations that are in view [R, v], in quarters of the bound."""
    if state.is_cropped:
        places = places_of_view(state)
        features = [feature.gather(1, places) for feature in features]
    unit = context.bound[:, None] / 4
    return [feature / unit for feature in features]


def machines_of(context: JobShopContext) -> int:
    """M, and one more for each operation, which may have its own."""
    return context.machine_release.shape[1] + context.machine.shape[1]


def lower_bounds(machines: int, machine: Tensor, times: Tensor, head: Tensor, tail: Tensor) -> list[Tensor]:
    """Four lower bounds [R, n] on the makespan per operation, less the largest of the first two of all operations.

    The bounds of an operation: of the chain of its job through the operation; of its machine, the earliest head plus
    all the work plus the shortest tail [Carlier 1982]; of its machine if the operation is the first on it; and of its
    machine if the operation is the last on it.

    Arguments:
        machines: as many as `machines_of` counts
        machine, times, head, tail: [R, n] of each operation
    """
    load, first, last = (
        of_machines(machines, machine, values, reduce)
        for values, reduce in ((times, "sum"), (head, "amin"), (tail, "amin"))
    )
    chain, relaxed = head + times + tail, first + load + last
    largest = torch.maximum(chain, relaxed).amax(dim=1, keepdim=True)
    return [bound - largest for bound in (chain, relaxed, head + load + last, first + load + tail)]


def of_machines(machines: int, machine: Tensor, values: Tensor, reduce: str) -> Tensor:
    """For each operation [R, n] the sum or the minimum of the values [R, n] of all operations of its machine."""
    empty = values.new_zeros(values.shape[0], machines)
    return empty.scatter_reduce(1, machine, values, reduce, include_self=False).gather(1, machine)
