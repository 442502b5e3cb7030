"""The job shop scheduling problem: order the operations of jobs on machines so that all ends early [GD, D.4]."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import moved, repeated
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem
from problems.common.groups import sizes_of
from problems.common.growth import check_growth, size_at
from problems.common.remaining import unmarked, without
from problems.jssp import sets
from problems.jssp.instances import (
    Instance,
    backwards,
    check_instance,
    for_network,
    is_reversible,
    lengths_of,
    random_general_instances,
    random_instances,
)
from problems.jssp.reports import JSSPReports
from problems.jssp.schedules import order_by, schedule, timeline
from problems.jssp.state import State
from problems.jssp.window import Window


class JSSP(Problem):
    """An action is the job whose next operation starts as early as it can (A = J); a decision for each operation.

    Arguments:
        sizes: [jobs, machines] or [jobs, machines, weight] of the random training instances; `generate` draws one size
            for all its instances, with a probability in proportion to the weight (1 where none is given)
        validation_sizes: [jobs, machines] of the validation instances, equally many of each
        chronological: imitate experts with their decisions in the order of the operations' starts, ties at random. Many
            orders give the same schedule. With this one a policy is far better on larger instances than those of its
            training, and a bit worse on these (docs/results.md). Not in the paper.
        reversal: imitate half of the experts backwards in time: with the operations of every job in reverse order, the
            reversed schedule is as good. Not in the paper.
        grow: [[jobs, machines], share]: the first training instances have this size, later ones more of both, up to
            `sizes` after that share of the training (None: `sizes` from the start). Not in the paper.
        general: the probability that the instances of an epoch are general job shops (`random_general_instances`): jobs
            of different lengths, repeated visits to machines, releases, waits. Not in the paper.
        window: the policy sees the next operations of each job, so many; for large shops (None or `all`: all
            operations). The features of `model.lookahead` still count every remaining operation. Not in the paper.
        jobs_in_view: the policy sees so many jobs, those that can go on first, and chooses among them; for hundreds of
            jobs (None or `all`: all jobs). Not in the paper.
    """

    name = "jssp"
    reports = JSSPReports()
    dimensions = {"times": 2, "machines": 2, "release": 1, "machine_release": 1, "waits": 2, "fixed": 2}

    def __init__(
        self,
        sizes: list[list[int | float]],
        validation_sizes: list[list[int]],
        reversal: bool = False,
        grow: list | None = None,
        chronological: bool = False,
        general: float = 0.0,
        window: int | str | None = None,
        jobs_in_view: int | str | None = None,
    ):
        check_growth(grow, 1, dimensions=2)
        if not 0 <= general <= 1:
            raise ValueError(f"general must be a share in 0..1, got {general}")
        if not sizes or not validation_sizes:
            raise ValueError("sizes and validation_sizes must each list at least one [jobs, machines]")
        for size in [*(size[:2] for size in sizes), *validation_sizes, *(grow or [])[:1]]:
            if len(size) != 2 or not all(isinstance(n, int) and n >= 1 for n in size) or size[0] * size[1] < 2:
                raise ValueError(f"a size is [jobs, machines] with at least two operations, got {size}")
        for size in sizes:
            if len(size) > 3 or not all(0 < weight < math.inf for weight in size[2:]):
                raise ValueError(f"a size is [jobs, machines] or [jobs, machines, weight above 0], got {size}")
        if any(validation_sizes.count(size) > 1 for size in validation_sizes):
            raise ValueError(f"validation_sizes must differ from one another, got {validation_sizes}")
        self.sizes = [tuple(size[:2]) for size in sizes]
        self.weights = [float(size[2]) if len(size) == 3 else 1.0 for size in sizes]
        self.validation_sizes = [tuple(size) for size in validation_sizes]
        self.chronological = chronological
        self.reversal = reversal
        self.grow = grow
        self.general = general
        self.window = Window.of(window, jobs_in_view)

    def curriculum(self, progress: float) -> JSSP:
        """The same problem with the sizes due after a share `progress` of the training."""
        if self.grow is None:
            return self
        first, share = self.grow
        stage = copy(self)
        stage.sizes = [
            tuple(size_at([n, share], full, progress) for n, full in zip(first, size, strict=True))
            for size in self.sizes
        ]
        return stage

    def generate(self, n: int, generator: torch.Generator) -> Instance:
        """n instances of one of the sizes, all classical or all general."""
        shares = [weight / max(self.weights) for weight in self.weights]  # float32 ends at 3e38
        weights = torch.tensor(shares, dtype=torch.float32)
        jobs, ops = self.sizes[int(torch.multinomial(weights, 1, generator=generator))]
        if self.general and float(torch.rand((), dtype=torch.float32, generator=generator)) < self.general:
            return random_general_instances(n, jobs, ops, generator)
        return random_instances(n, jobs, ops, generator)

    def num_actions(self, instance: Instance) -> int:
        return instance.times.shape[1]

    def horizon(self, instance: Instance) -> int:
        return instance.operations.shape[1]

    def last_choice(self, instance: Instance) -> int:
        return max(0, self.horizon(instance) - 2)  # with one operation left the move is forced

    def reset(self, instance: Instance) -> State:
        first = instance.times.shape[2] - lengths_of(instance)
        operations = instance.operations
        return self._seen(instance, State(first, instance.release, instance.machine_release, operations, operations))

    def _seen(self, instance: Instance, state: State) -> State:
        """The state with those operations in view that are in the window."""
        return state._replace(in_view=self.window.in_view(instance, state))

    def step(self, instance: Instance, state: State, action: Tensor) -> State:
        job = action[:, None]  # [R, 1]
        op = state.next_op.gather(1, job)
        flat = job * instance.times.shape[2] + op
        machine, time, wait = (
            field.flatten(1).gather(1, flat) for field in (instance.machines, instance.times, instance.waits)
        )
        ready, free = state.job_free.gather(1, job), state.machine_free.gather(1, machine)
        end = torch.where(time > 0, torch.maximum(ready, free) + time, ready)  # z of job and machine [GD, eq. 31-32]
        remaining = without(state.remaining, flat)
        after = State(
            next_op=state.next_op.scatter(1, job, op + 1),
            job_free=state.job_free.scatter(1, job, end + wait),
            machine_free=state.machine_free.scatter(1, machine, torch.where(time > 0, end, free)),
            remaining=remaining,
            in_view=remaining,
        )
        return self._seen(instance, after)

    def replay(self, instance: Instance, actions: Tensor) -> State:
        """The state after `actions` [R, q] without the tensors of the q states before it."""
        if actions.shape[1] == 0:
            return self.reset(instance)
        rows, jobs, ops = instance.times.shape
        done = timeline(instance, actions)
        next_op = ops - lengths_of(instance) + sizes_of(actions, jobs)
        not_remaining = (~instance.there()).flatten(1).scatter_(1, done.operations, True)
        remaining = unmarked(not_remaining, self.horizon(instance) - actions.shape[1])
        return self._seen(instance, State(next_op, done.job_free, done.machine_free, remaining, remaining))

    def mask(self, instance: Instance, state: State) -> Tensor:
        """The jobs with operations in view, the next one among them."""
        legal = state.next_op < instance.times.shape[2]
        if state.is_cropped:
            legal = torch.zeros_like(legal).scatter_(1, state.in_view // instance.times.shape[2], True)
        done = ~legal.any(dim=1, keepdim=True)  # some action is legal, also where nothing is left to decide
        return torch.cat([legal[:, :1] | done, legal[:, 1:]], dim=1)

    def in_view(self, instance: Instance, state: State, action: Tensor) -> Tensor:
        return self.mask(instance, state).gather(1, action[:, None]).squeeze(1)

    def cost(self, instance: Instance, actions: Tensor) -> Tensor:
        """Makespan [R] of the schedules that the sequences of jobs [R, T] stand for."""
        return (schedule(instance, actions) + instance.times).amax(dim=(1, 2))

    def edges(self, instance: Instance, actions: Tensor) -> Tensor:
        """The pairs of operations that follow each other on a machine, in their order; -1 where there is no pair."""
        count = instance.times[0].numel()
        operations = timeline(instance, actions).operations
        takes = instance.times.flatten(1).gather(1, operations) > 0  # those of time 0 take no machine
        machine = instance.machines.flatten(1).gather(1, operations).masked_fill(~takes, -1)
        machine, order = machine.sort(dim=1, stable=True)
        operations = operations.gather(1, order)
        pairs = operations[:, :-1] * count + operations[:, 1:]
        return pairs.masked_fill((machine[:, :-1] != machine[:, 1:]) | (machine[:, 1:] < 0), -1)

    def augment(
        self, instance: Instance, actions: Tensor, step: int, generator: torch.Generator
    ) -> tuple[Instance, Tensor]:
        """Schedules as good: half of them backwards in time, if `reversal`."""
        if self.reversal:
            half = moved(torch.rand(len(actions), 1, dtype=torch.float32, generator=generator) < 0.5, actions.device)
            reversed_ones = half & is_reversible(instance)[:, None]
            instance = backwards(instance, reversed_ones.squeeze(1))
            actions = torch.where(reversed_ones, actions.flip(1), actions)
        return instance, actions

    def reorder(self, instance: Instance, actions: Tensor, step: int, generator: torch.Generator) -> Tensor:
        """The same schedules, their decisions in the order of the starts if `chronological`; ties at random.

        Of operations that start together, those that take no time come first: others of their job wait for them.
        """
        if not self.chronological:
            return actions
        drawn = moved(torch.rand(actions.shape, dtype=torch.float32, generator=generator), actions.device)
        done = timeline(instance, actions)
        ends = done.starts + instance.times.flatten(1).gather(1, done.operations)  # a tiny time may be lost in it
        return actions.gather(1, order_by(done.starts, ends > done.starts, drawn))

    def num_equivalents(self, instance: Instance) -> int:
        """Forwards and backwards in time."""
        return 2

    def equivalents(self, instance: Instance, count: int) -> tuple[Instance, Callable[[Tensor], Tensor]]:
        """Backwards in time: a schedule of reversed jobs, reversed, is as good or better with all operations early.

        An instance with releases is its own equivalent.
        """
        each = repeated(instance, count)
        second = torch.arange(count, device=each.times.device).repeat(len(instance.times)) > 0  # [R * count]
        second = second & is_reversible(each)

        def restored(actions: Tensor) -> Tensor:
            return torch.where(second[:, None, None], actions.flip(2), actions)

        return backwards(each, second), restored

    def check(self, instance: Instance) -> None:
        """Raises ValueError unless all instances are well-formed."""
        check_instance(instance)

    def scaled(self, instance: Instance) -> Instance:
        """With times as evaluation sets have them."""
        return for_network(instance)

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """Evaluation sets: a named standard set, a `.npz`, a text or JSON file, a folder."""
        return sets.load_jssp(source, limit)

    def from_arrays(self, arrays: Mapping[str, Any], where: str) -> InstanceSet:
        """Instances in arrays by the names of those of an `.npz`."""
        return sets.from_arrays(dict(arrays), where)

    def scale(self, instance: Instance) -> dict[str, Tensor]:
        """The numbers of jobs and of machines."""
        rows, jobs, machines = *instance.release.shape, instance.machine_release.shape[1]
        return {"jobs": torch.full((rows,), float(jobs)), "machines": torch.full((rows,), float(machines))}

    def validation(self, n: int, seed: int) -> list[InstanceSet]:
        """n random instances in equal parts of the validation sizes, the same for all seeds; references as shipped."""
        part, more = divmod(n, len(self.validation_sizes))
        counts = [part + (i < more) for i in range(len(self.validation_sizes))]
        if not part:
            raise ValueError(f"{len(counts)} validation sizes need at least as many validation instances, got {n}")
        return [sets.validation(*size, count) for size, count in zip(self.validation_sizes, counts, strict=True)]
