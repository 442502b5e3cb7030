"""What a partial schedule implies for the operations that remain: earliest starts, work to come, lower bounds."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.jssp import State
from problems.jssp.instances import Instance

FEATURES = 8  # of each operation


def lookahead(instance: Instance, state: State) -> list[Tensor]:
    """Features [R, n] of the operations that remain, in quarters of the instance's lower bound.

    That unit stays the same from the first decision to the last, and makes small and large instances alike.

    The features: the earliest start of its job's next operation and its own (its head), the work that its job has after
    it (its tail), how long its machine stays busy, and the lower bounds on the makespan.
    """
    ops = instance.times.shape[2]  # of a job, one on each machine
    job = state.remaining // ops
    machine = instance.machines.flatten(1).gather(1, state.remaining)
    times = instance.times.flatten(1).gather(1, state.remaining)
    through = times.cumsum(dim=1)  # within a job, differences of it are the work in between
    left = torch.zeros_like(state.job_free).scatter_add_(1, job, times)  # [R, J]
    before = through - times - (left.cumsum(dim=1) - left).gather(1, job)
    start, busy = state.job_free.gather(1, job), state.machine_free.gather(1, machine)
    head, tail = start + before, left.gather(1, job) - before - times
    bounds = lower_bounds(ops, machine, times, torch.maximum(head, busy), tail)
    unit = bound_of(instance)[:, None] / 4
    return [feature / unit for feature in (start, head, tail, busy, *bounds)]


def lower_bounds(machines: int, machine: Tensor, times: Tensor, head: Tensor, tail: Tensor) -> list[Tensor]:
    """Four lower bounds on the makespan per operation, all [R, n], less the largest of the first two of all operations.

    That of its job's chain through it, and that of its machine: the earliest head, all the work, and the shortest tail
    [Carlier 1982]. The latter also if the operation is the first on its machine, and if it is the last.
    """

    def of_machine(values: Tensor, reduce: str) -> Tensor:
        empty = values.new_zeros(values.shape[0], machines)
        return empty.scatter_reduce(1, machine, values, reduce, include_self=False).gather(1, machine)

    load, first, last = of_machine(times, "sum"), of_machine(head, "amin"), of_machine(tail, "amin")
    chain, relaxed = head + times + tail, first + load + last
    largest = torch.maximum(chain, relaxed).amax(dim=1, keepdim=True)
    return [bound - largest for bound in (chain, relaxed, head + load + last, first + load + tail)]


def bound_of(instance: Instance) -> Tensor:
    """The most work [R] of a job or a machine."""
    jobs = instance.times.sum(dim=2)
    machines = torch.zeros_like(instance.times[:, 0])
    machines.scatter_add_(1, instance.machines.flatten(1), instance.times.flatten(1))
    bound = torch.maximum(jobs.amax(dim=1), machines.amax(dim=1))
    return bound.where(bound > 0, 1.0)
