"""What the job shop and the flexible job shop have in common [GD, D.4]."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from gumbeldore.batches import moved, repeated, to
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem
from problems.common.groups import sizes_of
from problems.common.growth import check_growth, size_at
from problems.common.remaining import unmarked
from problems.common.view import ViewBySize
from problems.jssp.dispatching import dispatched, rules_for
from problems.jssp.instances import check_instance, for_network, is_reversible, is_there, job_shop, lengths_of
from problems.jssp.objectives import (
    FLOW,
    MAKESPAN,
    TARDINESS,
    check_objective,
    cost_of,
    with_due_dates,
    with_flow_time,
)
from problems.jssp.schedules import order_by, timeline
from problems.jssp.shop_sets import ShopSets
from problems.jssp.state import State
from problems.jssp.window import LARGE_VIEW, Window

AnyShop = TypeVar("AnyShop", bound="Shop")


class Shop(Problem):
    """A decision starts the next operation of a job as early as it can; a decision for each operation.

    An instance has the fields of `problems.jssp.Instance` that tell of jobs: operations, release, machine_release,
    waits. What its operations take and where is its own; its `assigned` gives them the machines that decisions choose.

    Arguments:
        sizes: [jobs, machines] or [jobs, machines, weight] of the random training instances; `generate` draws one size
            for all its instances, with a probability in proportion to the weight (1 where none is given)
        validation_sizes: [jobs, machines] of the validation instances, equally many of each
        chronological: imitate experts with their decisions in the order of the operations' starts, ties at random. Many
            orders give the same schedule. With this one a policy is far better on larger instances than those of its
            training, and a bit worse on these (docs/results.md). Not in the paper.
        reversal: imitate half of the experts backwards in time: with the operations of every job in reverse order, the
            reversed schedule has the same makespan. No effect with other objectives. Not in the paper.
        grow: [[jobs, machines], share]: the first training instances have this size, later ones more of both, up to
            `sizes` after that share of the training (None: `sizes` from the start). Not in the paper.
        window: the policy sees the next operations of each job, so many (`all`: all operations; None: all, but in
            evaluations of job shops for the makespan that are larger than those of the training, above 5,000
            operations, the next 5 of each of 50 jobs). The features of `model.lookahead` still count every remaining
            operation. Not in the paper.
        jobs_in_view: the policy sees so many jobs, those that can go on first, and chooses among them (`all`: all jobs;
            None: as `window`). Not in the paper.
        objective: what is to be minimised: `makespan`, `total_flow_time` or `weighted_tardiness`. The last two sum over
            the jobs: the time from release to end; the weight times the time after the due date. Random instances
            get the due dates and weights of Singer and Pinedo [1998]. Not in the paper.
    """

    sets: ClassVar[type[ShopSets]]
    objective = MAKESPAN

    def __init__(
        self,
        sizes: list[list[int | float]],
        validation_sizes: list[list[int]],
        reversal: bool = False,
        grow: list | None = None,
        chronological: bool = False,
        window: int | str | None = None,
        jobs_in_view: int | str | None = None,
        objective: str = MAKESPAN,
    ):
        check_growth(grow, 1, dimensions=2)
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
        is_said = window is not None or jobs_in_view is not None
        self.window = ViewBySize(Window.of(window, jobs_in_view), LARGE_VIEW, is_said)
        self.objective = check_objective(objective)

    @abstractmethod
    def earliest_starts(self, instance: Any, state: State) -> Tensor:
        """When the next operation of each job can start [R, J]; of a finished job, any number."""

    @property
    def decisions_per_pass(self) -> int:
        """4 for policies of chronological experts, which lose nothing (docs/decisions.md); no others were measured."""
        return 4 if self.chronological else 1

    def curriculum(self: AnyShop, progress: float) -> AnyShop:
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

    def drawn_size(self, generator: torch.Generator) -> tuple[int, int]:
        """Jobs and machines of random training instances."""
        shares = [weight / max(self.weights) for weight in self.weights]  # float32 ends at 3e38
        weights = torch.tensor(shares, dtype=torch.float32)
        return self.sizes[int(torch.multinomial(weights, 1, generator=generator))]

    def with_objective(self, instance: Any, generator: torch.Generator) -> Any:
        """Random instances with the due dates that the objective asks for."""
        if self.objective == FLOW:
            return with_flow_time(instance)
        if self.objective == TARDINESS:
            return with_due_dates(instance, generator)
        return instance

    def horizon(self, instance: Any) -> int:
        return instance.operations.shape[1]

    def reset(self, instance: Any) -> State:
        first = instance.waits.shape[2] - lengths_of(instance)
        operations = instance.operations
        return self.with_view(
            instance, State(first, instance.release, instance.machine_release, operations, operations)
        )

    def with_view(self, instance: Any, state: State) -> State:
        """The state with those operations in view that are in the window."""
        starts = partial(self.earliest_starts, instance, state)
        window = self.window.of(self.horizon(instance))
        return state._replace(view=window.view(state, starts, instance.waits.shape[2]))

    def view_of(self, instance: Any) -> str:
        if not self.window.is_reduced(self.horizon(instance)):
            return ""
        jobs = min(LARGE_VIEW.jobs or math.inf, instance.release.shape[1])
        seen = f"the next {LARGE_VIEW.operations} operations of {jobs} jobs (problem.window=all: all)"
        return f"of shops with {self.horizon(instance):,} operations, the policy sees {seen}"

    def replay(self, instance: Any, actions: Tensor) -> State:
        """The state after `actions` [R, q] without the tensors of the q states before it."""
        if actions.shape[1] == 0:
            return self.reset(instance)
        _, jobs, ops = instance.waits.shape
        shop, order = instance.assigned(actions)
        done = timeline(shop, order)
        next_op = ops - lengths_of(instance) + sizes_of(order, jobs)
        not_remaining = (~is_there(instance)).flatten(1).scatter_(1, done.operations, True)
        remaining = unmarked(not_remaining, self.horizon(instance) - actions.shape[1])
        return self.with_view(instance, State(next_op, done.job_free, done.machine_free, remaining, remaining))

    def can_go_on(self, instance: Any, state: State) -> Tensor:
        """The jobs with operations in view, the next one among them, bool [R, J]; job 0 when all are finished."""
        legal = state.next_op < instance.waits.shape[2]
        if state.is_cropped:
            legal = torch.zeros_like(legal).scatter_(1, state.view // instance.waits.shape[2], True)
        done = ~legal.any(dim=1, keepdim=True)  # some action is legal, also where nothing is left to decide
        return torch.cat([legal[:, :1] | done, legal[:, 1:]], dim=1)

    def sees(self, instance: Any, state: State, action: Tensor) -> Tensor:
        return self.mask(instance, state).gather(1, action[:, None]).squeeze(1)

    def cost(self, instance: Any, actions: Tensor) -> Tensor:
        """Cost [R] of the schedules that the decisions [R, T] stand for."""
        return cost_of(self.objective, *instance.assigned(actions))

    def edges(self, instance: Any, actions: Tensor) -> Tensor:
        """The pairs of operations that follow each other on a machine, in their order; -1 where there is no pair."""
        shop, jobs = instance.assigned(actions)
        count = shop.times[0].numel()
        operations = timeline(shop, jobs).operations
        takes = shop.times.flatten(1).gather(1, operations) > 0  # those of time 0 take no machine
        machine = shop.machines.flatten(1).gather(1, operations).masked_fill(~takes, -1)
        machine, order = machine.sort(dim=1, stable=True)
        operations = operations.gather(1, order)
        pairs = operations[:, :-1] * count + operations[:, 1:]
        return pairs.masked_fill((machine[:, :-1] != machine[:, 1:]) | (machine[:, 1:] < 0), -1)

    def augment(self, instance: Any, actions: Tensor, step: int, generator: torch.Generator) -> tuple[Any, Tensor]:
        """Schedules with the same makespan: half of them backwards in time, if `reversal`."""
        if self.reversal and self.objective == MAKESPAN:
            half = moved(torch.rand(len(actions), 1, dtype=torch.float32, generator=generator) < 0.5, actions.device)
            reversed_ones = half & is_reversible(instance)[:, None]
            instance = instance.backwards(reversed_ones.squeeze(1))
            actions = torch.where(reversed_ones, actions.flip(1), actions)
        return instance, actions

    def reorder(self, instance: Any, actions: Tensor, step: int, generator: torch.Generator) -> Tensor:
        """The same schedules, their decisions in the order of the starts if `chronological`; ties at random.

        Of operations that start together, those that take no time come first: others of their job wait for them.
        """
        if not self.chronological:
            return actions
        drawn = moved(torch.rand(actions.shape, dtype=torch.float32, generator=generator), actions.device)
        shop, jobs = instance.assigned(actions)
        done = timeline(shop, jobs)
        ends = done.starts + shop.times.flatten(1).gather(1, done.operations)  # a tiny time may be lost in it
        return actions.gather(1, order_by(done.starts, ends > done.starts, drawn))

    @abstractmethod
    def decisions(self, instance: Any, jobs: Tensor, machines: Tensor) -> Tensor:
        """The decisions [R, T] for the next operations of jobs on machines."""

    def prepare_rules(self) -> None:
        """Compile the dispatching rules."""
        dispatched(job_shop(torch.ones(1, 1, 1), torch.zeros(1, 1, 1, dtype=torch.int64)), "MWR (active)")

    def by_rules(self, instance: Any) -> Tensor:
        """The best schedules of all dispatching rules, found on the CPU."""
        here, on_cpu = instance.operations.device, to(instance, "cpu")
        found = [self.decisions(on_cpu, *dispatched(on_cpu, rule)) for rule in rules_for(on_cpu)]
        each = torch.stack(found, dim=1)  # [R, rules, T]
        cost = self.cost(repeated(on_cpu, len(found)), each.flatten(0, 1)).view(each.shape[:2])
        return each[torch.arange(len(each)), cost.argmin(dim=1)].to(here)

    def num_equivalents(self, instance: Any) -> int:
        """Forwards and backwards in time; of other objectives than the makespan, forwards alone."""
        return 2 if self.objective == MAKESPAN else 1

    def equivalents(self, instance: Any, count: int) -> tuple[Any, Callable[[Tensor], Tensor]]:
        """Backwards in time: a schedule of reversed jobs, reversed, is as good or better with all operations early.

        An instance with releases is its own equivalent.
        """
        each = repeated(instance, count)
        second = torch.arange(count, device=each.times.device).repeat(len(instance.times)) > 0  # [R * count]
        second = second & is_reversible(each)

        def restored(actions: Tensor) -> Tensor:
            return torch.where(second[:, None, None], actions.flip(2), actions)

        return each.backwards(second), restored

    def check(self, instance: Any) -> None:
        """Raises ValueError unless all instances are well-formed."""
        check_instance(instance)

    def in_training_units(self, instance: Any) -> Any:
        """With times as evaluation sets have them."""
        return for_network(instance)

    def size_of(self, instance: Any) -> dict[str, Tensor]:
        """The numbers of jobs and of machines."""
        rows, jobs, machines = *instance.release.shape, instance.machine_release.shape[1]
        return {"jobs": torch.full((rows,), float(jobs)), "machines": torch.full((rows,), float(machines))}

    def validation(self, n: int, seed: int) -> list[InstanceSet]:
        """n random instances in equal parts of the validation sizes, the same for all seeds; references as shipped."""
        part, more = divmod(n, len(self.validation_sizes))
        counts = [part + (i < more) for i in range(len(self.validation_sizes))]
        if not part:
            raise ValueError(f"{len(counts)} validation sizes need at least as many validation instances, got {n}")
        sets = self.sets(self.objective)
        return [sets.validation(*size, count) for size, count in zip(self.validation_sizes, counts, strict=True)]

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """Evaluation sets: a standard set, an `.npz`, an instance file, a folder."""
        return self.sets(self.objective).load(source, limit)

    def from_arrays(self, arrays: Mapping[str, Any], where: str) -> InstanceSet:
        """Instances in arrays by the names of those of an `.npz`."""
        return self.sets(self.objective).from_arrays(dict(arrays), where)
