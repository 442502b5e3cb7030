"""The state of a job shop in which some decisions have been made."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from problems.jssp.instances import Instance


class State(NamedTuple):
    next_op: Tensor  # [R, J] int64 place of the job's next operation; O when it is finished
    job_free: Tensor  # [R, J] when the job's next operation can start
    machine_free: Tensor  # [R, M] end of the machine's last scheduled operation, before there is one its release
    remaining: Tensor  # [R, n] int64 the numbers of the operations to come, ascending
    in_view: Tensor  # [R, v] int64 those of them that the policy sees, ascending: all, or those in the window

    @property
    def is_cropped(self) -> bool:
        """Whether some operations are out of view."""
        return self.in_view.shape[1] < self.remaining.shape[1]


def earliest_starts(instance: Instance, state: State) -> Tensor:
    """When the next operation of each job can start [R, J]; of a finished job, when its last one could come again."""
    place = state.next_op.clamp(max=instance.times.shape[2] - 1)[..., None]
    times, machine = (field.gather(2, place).squeeze(2) for field in (instance.times, instance.machines))
    busy = state.machine_free.gather(1, machine).masked_fill(times == 0, 0.0)
    return torch.maximum(state.job_free, busy)


def places_in_view(state: State) -> Tensor:
    """Where each operation in view [R, v] stands among those that remain [R, n]."""
    return torch.searchsorted(state.remaining.contiguous(), state.in_view.contiguous())
