"""Which operations of a job shop attend to each other: those of a job, and those of a machine."""

from __future__ import annotations

import torch
from torch import Tensor

from models.attention import AttentionGroups, bias_against
from problems.common.groups import ranks_of, sizes_of
from problems.jssp import State
from problems.jssp.instances import Instance, machine_of

# Up to this ratio of its scores to the scores of the groups, full attention costs less on a CPU (docs/decisions.md).
MAX_DENSE_RATIO = 2


def attention_patterns(
    instance: Instance, state: State, heads: int
) -> list[tuple[Tensor | None, AttentionGroups | None]]:
    """Bias and groups of attention within jobs, and of attention within machines, for the operations in view.

    The bias within jobs is slope * index of the key: ALiBi [Press et al. 2022; GD, appendix D.4.2] without the term of
    the query, which changes no softmax.

    In groups of one per job or machine, attention has J * O^2 or M * S^2 scores at most. Where few operations are in
    view, full attention takes about as many; a bias then hides the pairs that are in different groups, with the same
    result. On a CPU that saves torch the copies into the groups. On a GPU the copies cost next to nothing, while every
    layer would read a bias for all pairs.
    """
    rows, jobs, ops = instance.times.shape
    machines, longest = instance.queues.shape[1:]
    seen, whole = state.in_view, not state.is_cropped
    job, machine = seen // ops, machine_of(instance, seen)
    slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1, dtype=torch.float32, device=job.device))
    if whole:
        job_size, machine_size = ops, longest
    else:
        exact = job.device.type == "cpu"
        job_slots, job_size = slots_of(job, jobs, ops, exact)
        number = instance.machines.flatten(1).gather(1, seen)
        machine_slots, machine_size = slots_of(number, machines, longest, exact)
    few = seen.shape[1] ** 2 <= MAX_DENSE_RATIO * (jobs * job_size**2 + machines * machine_size**2)
    if few and (job.device.type == "cpu" or not whole):
        same_job, same_machine = (group[:, :, None] == group[:, None, :] for group in (job, machine))
        hidden = [bias_against(~same)[:, None] for same in (same_job, same_machine)]
        return [(hidden[0] + slope[:, None, None] * (seen % ops)[:, None, None, :], None), (hidden[1], None)]
    if whole:
        job_slots, machine_slots = seen, queue_slots(instance).gather(1, seen)
    row = torch.arange(rows, device=job.device)[:, None]
    by_job = AttentionGroups.of((row * jobs * job_size + job_slots).flatten(), rows * jobs, job_size)
    slots = (row * machines * machine_size + machine_slots).flatten()
    by_machine = AttentionGroups.of(slots, rows * machines, machine_size, alone=machine >= machines)
    return [(slope[:, None, None] * torch.arange(job_size, device=job.device), by_job), (None, by_machine)]


def queue_slots(instance: Instance) -> Tensor:
    """The slot of each operation [R, J * O + 1] where the queues of the machines have S slots each."""
    queues = instance.queues.flatten(1)
    slot = torch.arange(queues.shape[1], device=queues.device).expand_as(queues)
    return queues.new_zeros(len(queues), instance.times[0].numel() + 1).scatter_(1, queues, slot)


def slots_of(group: Tensor, count: int, most: int, exact: bool) -> tuple[Tensor, int]:
    """The slot [R, v] of each token in groups of one size, and this size.

    Arguments:
        group: [R, v] of each token, 0..count-1
        most: tokens of a group at most
        exact: groups of the size that is needed; a GPU would have to wait for this number
    """
    sizes = sizes_of(group, count)
    size = int(sizes.max()) if exact else min(most, group.shape[1])
    return group * size + ranks_of(group, sizes), size


def most_scores(instance: Instance, state: State) -> int:
    """The attention scores of a head in a layer within jobs and one within machines are at most as many."""
    (jobs, ops), (machines, longest) = instance.times.shape[1:], instance.queues.shape[1:]
    most = MAX_DENSE_RATIO * (jobs * ops**2 + machines * longest**2)
    return min(most, 2 * state.in_view.shape[1] ** 2) if state.is_cropped else most
