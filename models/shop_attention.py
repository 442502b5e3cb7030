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
    _, jobs, ops = instance.times.shape
    machines, longest = instance.queues.shape[1:]
    view, whole = state.view, not state.is_cropped
    machine = machine_of(instance, view)
    job_slots, job_size = slots_of_jobs(state, jobs, ops)
    machine_size = longest
    if not whole:
        number = instance.machines.flatten(1).gather(1, view)
        machine_slots, machine_size = slots_of(number, machines, longest)
    few = view.shape[1] ** 2 <= MAX_DENSE_RATIO * (jobs * job_size**2 + machines * machine_size**2)
    dense = few and (view.device.type == "cpu" or not whole)
    within_jobs = attention_within_jobs(view, ops, heads, None if dense else (job_slots, jobs, job_size))
    if dense:
        return [within_jobs, (bias_against(machine[:, :, None] != machine[:, None, :])[:, None], None)]
    if whole:
        machine_slots = queue_slots(instance).gather(1, view)
    return [within_jobs, (None, groups_of(machine_slots, machines, machine_size, alone=machine >= machines))]


def attention_within_jobs(
    view: Tensor, ops: int, heads: int, groups: tuple[Tensor, int, int] | None
) -> tuple[Tensor | None, AttentionGroups | None]:
    """Bias and groups of attention within jobs, for the operations in view [R, v], of which a job has O at most.

    Arguments:
        groups: slots [R, v], count and size of the groups; None: a bias hides the pairs of different jobs instead
    """
    slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1, dtype=torch.float32, device=view.device))
    if groups is not None:
        return slope[:, None, None] * torch.arange(groups[2], device=view.device), groups_of(*groups)
    job = view // ops
    hidden = bias_against(job[:, :, None] != job[:, None, :])[:, None]
    return hidden + slope[:, None, None] * (view % ops)[:, None, None, :], None


def groups_of(slots: Tensor, count: int, size: int, alone: Tensor | None = None) -> AttentionGroups:
    """The groups of all rows: the tokens' slots [R, v] among `count` groups of `size` slots each in a row."""
    row = torch.arange(len(slots), device=slots.device)[:, None]
    return AttentionGroups.of((row * count * size + slots).flatten(), len(slots) * count, size, alone)


def queue_slots(instance: Instance) -> Tensor:
    """The slot of each operation [R, J * O + 1] where the queues of the machines have S slots each."""
    queues = instance.queues.flatten(1)
    slot = torch.arange(queues.shape[1], device=queues.device).expand_as(queues)
    return queues.new_zeros(len(queues), instance.times[0].numel() + 1).scatter_(1, queues, slot)


def slots_of_jobs(state: State, jobs: int, ops: int) -> tuple[Tensor, int]:
    """The slot [R, v] of each operation in view where every job is a group of one size, and this size."""
    if not state.is_cropped:
        return state.view, ops
    return slots_of(state.view // ops, jobs, ops)


def slots_of(group: Tensor, count: int, most: int) -> tuple[Tensor, int]:
    """The slot [R, v] of each token in groups of one size, and this size.

    On a CPU the size is the one that is needed; a GPU would have to wait for this number.

    Arguments:
        group: [R, v] of each token, 0..count-1
        most: tokens of a group at most
    """
    sizes = sizes_of(group, count)
    size = int(sizes.max()) if group.device.type == "cpu" else min(most, group.shape[1])
    return group * size + ranks_of(group, sizes), size


def most_scores(instance: Instance, state: State) -> int:
    """The attention scores of a head in a layer within jobs and one within machines are at most as many."""
    (jobs, ops), (machines, longest) = instance.times.shape[1:], instance.queues.shape[1:]
    most = MAX_DENSE_RATIO * (jobs * ops**2 + machines * longest**2)
    return min(most, 2 * state.view.shape[1] ** 2) if state.is_cropped else most
