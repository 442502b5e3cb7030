"""The state of a job shop in which some decisions have been made."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from problems.common.remaining import without
from problems.jssp.instances import Instance


class State(NamedTuple):
    next_op: Tensor  # [R, J] int64 place of the job's next operation; O when it is finished
    job_free: Tensor  # [R, J] when the job's next operation can start
    machine_free: Tensor  # [R, M] end of the machine's last scheduled operation, before there is one its release
    remaining: Tensor  # [R, n] int64 the numbers of the operations to come, ascending
    view: Tensor  # [R, v] int64 those of them that the policy sees, ascending: all, or those in the window

    @property
    def is_cropped(self) -> bool:
        """Whether some operations are out of view."""
        return self.view.shape[1] < self.remaining.shape[1]


def after(instance: Any, state: State, operation: Tensor, machine: Tensor, time: Tensor) -> State:
    """The state after the next operation of a job has started as early as it can, all operations in view.

    Arguments:
        operation: [R, 1] the number of the operation
        machine, time: [R, 1] where it goes and how long it takes
    """
    ops = instance.waits.shape[2]
    job, op = operation // ops, operation % ops
    wait = instance.waits.flatten(1).gather(1, operation)
    ready, free = state.job_free.gather(1, job), state.machine_free.gather(1, machine)
    end = torch.where(time > 0, torch.maximum(ready, free) + time, ready)  # z of job and machine [GD, eq. 31-32]
    remaining = without(state.remaining, operation)
    return State(
        next_op=state.next_op.scatter(1, job, op + 1),
        job_free=state.job_free.scatter(1, job, end + wait),
        machine_free=state.machine_free.scatter(1, machine, torch.where(time > 0, end, free)),
        remaining=remaining,
        view=remaining,
    )


def next_operations(instance: Instance, state: State) -> tuple[Tensor, Tensor]:
    """Time and machine [R, J] of each job's next operation; of a finished job, of its last one."""
    place = state.next_op.clamp(max=instance.times.shape[2] - 1)[..., None]
    times, machine = (field.gather(2, place).squeeze(2) for field in (instance.times, instance.machines))
    return times, machine


def earliest_starts(instance: Instance, state: State) -> Tensor:
    """When the next operation of each job can start [R, J]; of a finished job, when its last one could come again."""
    times, machine = next_operations(instance, state)
    busy = state.machine_free.gather(1, machine).masked_fill(times == 0, 0.0)
    return torch.maximum(state.job_free, busy)


def next_releases(instance: Any, state: State) -> Tensor:
    """When the next operation of each job could start [R, J] if nothing but releases held it up."""
    released = state._replace(job_free=instance.release, machine_free=instance.machine_release)
    return earliest_starts(instance, released)


def places_of_view(state: State) -> Tensor:
    """Where each operation in view [R, v] stands among those that remain [R, n]."""
    return torch.searchsorted(state.remaining.contiguous(), state.view.contiguous())
