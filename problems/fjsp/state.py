"""What the state of a job shop means in a flexible one."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.fjsp.instances import Instance
from problems.jssp.state import State


def next_times(instance: Instance, state: State) -> Tensor:
    """The times of the next operation of each job on each machine [R, J, M], inf: it cannot do it.

    Of a finished job, those of its last operation.
    """
    rows, jobs, ops, machines = instance.times.shape
    place = state.next_op.clamp(max=ops - 1)[..., None, None].expand(rows, jobs, 1, machines)
    return instance.times.gather(2, place).squeeze(2)


def next_starts(instance: Instance, state: State) -> Tensor:
    """When the next operation of each job can start on each machine [R, J, M]; inf where the machine cannot do it."""
    times = next_times(instance, state)
    busy = state.machine_free[:, None].expand_as(times).masked_fill(times == 0, 0.0)
    return torch.maximum(state.job_free[..., None], busy).masked_fill(times.isinf(), torch.inf)
