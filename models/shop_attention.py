"""Which operations of a job shop attend to each other: those of a job, and those of a machine."""

from __future__ import annotations

import torch
from torch import Tensor

from models.attention import AttentionGroups, bias_against
from models.lookahead import JobShopContext
from problems.common.groups import ranks_of, sizes_of
from problems.jssp import State

# Up to this ratio of its scores to the scores of the groups, full attention costs less on a CPU (docs/decisions.md).
MAX_DENSE_RATIO = 2
SCORES_OF_A_GROUP = 150  # a group costs as much as so many more scores: its matrix products are calls of their own


def attention_patterns(
    context: JobShopContext, state: State, heads: int
) -> list[tuple[Tensor, AttentionGroups | None]]:
    """Bias and groups of attention within jobs, and of attention within machines, for the operations in view.

    The bias within jobs is slope * index of the key: ALiBi [Press et al. 2022; GD, appendix D.4.2] without the term of
    the query, which changes no softmax.

    In groups of one per job or machine, attention has J * O^2 or M * S^2 scores at most. Where few operations are in
    view, full attention takes about as many; a bias then hides the pairs that are in different groups, with the same
    result. On a CPU that saves torch the copies into the groups. On a GPU the copies cost next to nothing, while every
    layer would read a bias for all pairs.
    """
    _, jobs, ops = context.times.shape
    machines, longest = context.queues.shape[1:]
    view, on_cpu = state.view, state.view.device.type == "cpu"
    machine = context.machine.gather(1, view)
    job_slots, job_size = slots_of_jobs(state, jobs, ops)
    if on_cpu or state.is_cropped:
        number = context.machines.flatten(1).gather(1, view)
        machine_slots, machine_size = slots_of(number, ranks_of(number, sizes_of(number, machines)), longest)
    else:
        machine_slots, machine_size = queue_slots(context).gather(1, view), longest
    few = view.shape[1] ** 2 <= most_dense((jobs, job_size), (machines, machine_size))
    dense = few and (on_cpu or state.is_cropped)
    within_jobs = attention_within_jobs(view, ops, heads, None if dense else (job_slots, jobs, job_size))
    if dense:
        return [within_jobs, (bias_against(machine[:, :, None] != machine[:, None, :])[:, None], None)]
    alone: Tensor | None = machine >= machines
    if on_cpu and not alone.any():
        alone = None
    groups = groups_of(machine_slots, machines, machine_size, alone)
    return [within_jobs, (groups.hidden, groups)]


def attention_within_jobs(
    view: Tensor, ops: int, heads: int, slots: tuple[Tensor, int, int] | None
) -> tuple[Tensor, AttentionGroups | None]:
    """Bias and groups of attention within jobs, for the operations in view [R, v], of which a job has O at most.

    Arguments:
        slots: of the operations [R, v], with count and size of the groups; None: a bias hides the pairs of different
            jobs instead
    """
    slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1, dtype=torch.float32, device=view.device))
    if slots is not None:
        groups = groups_of(*slots)
        return groups.hidden + slope[:, None, None] * torch.arange(slots[2], device=view.device), groups
    job = view // ops
    hidden = bias_against(job[:, :, None] != job[:, None, :])[:, None]
    return hidden + slope[:, None, None] * (view % ops)[:, None, None, :], None


def groups_of(slots: Tensor, count: int, size: int, alone: Tensor | None = None) -> AttentionGroups:
    """The groups of all rows: the tokens' slots [R, v] among `count` groups of `size` slots each in a row."""
    row = torch.arange(len(slots), device=slots.device)[:, None]
    return AttentionGroups.of((row * count * size + slots).flatten(), len(slots) * count, size, alone)


def queue_slots(context: JobShopContext) -> Tensor:
    """The slot of each operation [R, J * O + 1] where the queues of the machines have S slots each."""
    queues = context.queues.flatten(1)
    slot = torch.arange(queues.shape[1], device=queues.device).expand_as(queues)
    return queues.new_zeros(len(queues), context.times[0].numel() + 1).scatter_(1, queues, slot)


def slots_of_jobs(state: State, jobs: int, ops: int) -> tuple[Tensor, int]:
    """The slot [R, v] of each operation in view where every job is a group of one size, and this size.

    Of each job the next operations are in view, one after the other.
    """
    job, place = state.view // ops, state.view % ops
    return slots_of(job, place - state.next_op.gather(1, job), ops)


def slots_of(group: Tensor, rank: Tensor, most: int) -> tuple[Tensor, int]:
    """The slot [R, v] of each token in groups of one size, and this size.

    On a CPU the size is the one that is needed; a GPU would have to wait for this number.

    Arguments:
        group, rank: [R, v] of each token, and how many tokens of the group come before
        most: tokens of a group at most
    """
    if rank.device.type == "cpu":
        most = int(rank.max()) + 1
    size = min(most, rank.shape[1])
    return group * size + rank, size


def most_dense(*groups: tuple[int, int]) -> float:
    """Up to so many scores, full attention costs less than attention within groups, each (count, size)."""
    return MAX_DENSE_RATIO * sum(count * (size**2 + SCORES_OF_A_GROUP) for count, size in groups)


def most_scores(context: JobShopContext, state: State) -> int:
    """The attention scores of a head in a layer within jobs and one within machines are at most as many."""
    groups = context.times.shape[1:], context.queues.shape[1:]
    if not state.is_cropped and context.times.device.type != "cpu":
        return sum(count * size**2 for count, size in groups)
    most = most_dense(*groups)
    return min(most, 2 * state.view.shape[1] ** 2) if state.is_cropped else most
