"""The flexible job shop scheduling problem: an operation may go to one of several machines, at times of their own."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.fjsp.instances import Instance, random_instances
from problems.fjsp.sets import FlexibleShopSets
from problems.fjsp.state import next_starts, next_times
from problems.jssp.instances import with_times
from problems.jssp.objectives import MAKESPAN
from problems.jssp.reports import ShopReports
from problems.jssp.shop import Shop
from problems.jssp.state import State, after

SIMILAR_UNIT = 5  # makes times of at most 20 about as long as those of at most 99, and keeps whole numbers


class FJSP(Shop):
    """An action is j * M + m: the next operation of job j goes to machine m (A = J * M) as early as it can.

    Arguments:
        similar_times: the probability that the instances of an epoch are those of Song et al. [2023] (SD1), where an
            operation takes about the same on all its machines; else they are those of Wang et al. [2024] (SD2), where
            times are uniform in 1..99
    """

    name = "fjsp"
    reports = ShopReports()
    sets = FlexibleShopSets
    dimensions = {"times": 3, "release": 1, "machine_release": 1, "waits": 2, "due": 1, "weight": 1}

    def __init__(
        self,
        sizes: list[list[int | float]],
        validation_sizes: list[list[int]],
        reversal: bool = False,
        grow: list | None = None,
        chronological: bool = False,
        similar_times: float = 0.5,
        window: int | str | None = None,
        jobs_in_view: int | str | None = None,
        objective: str = MAKESPAN,
    ):
        super().__init__(sizes, validation_sizes, reversal, grow, chronological, window, jobs_in_view, objective)
        if not 0 <= similar_times <= 1:
            raise ValueError(f"similar_times must be a share in 0..1, got {similar_times}")
        self.similar_times = similar_times

    def generate(self, n: int, generator: torch.Generator) -> Instance:
        """n instances of one of the sizes, all with similar times or all with uniform ones."""
        jobs, machines = self.drawn_size(generator)
        similar = float(torch.rand((), dtype=torch.float32, generator=generator)) < self.similar_times
        instances = random_instances(n, jobs, machines, similar, generator)
        if similar:
            instances = with_times(instances, lambda times: SIMILAR_UNIT * times)
        return self.with_objective(instances, generator)

    def num_actions(self, instance: Instance) -> int:
        return instance.times.shape[1] * instance.times.shape[3]

    def last_choice(self, instance: Instance) -> int:
        return self.horizon(instance) - 1  # the last operation still chooses its machine

    def step(self, instance: Instance, state: State, action: Tensor) -> State:
        _, _, ops, machines = instance.times.shape
        job, machine = action[:, None] // machines, action[:, None] % machines
        operation = job * ops + state.next_op.gather(1, job)
        time = instance.times.flatten(1).gather(1, operation * machines + machine)
        return self.with_view(instance, after(instance, state, operation, machine, time))

    def mask(self, instance: Instance, state: State) -> Tensor:
        """The machines that can do the next operations of the jobs in view."""
        jobs, machines = instance.times.shape[1], instance.times.shape[3]
        able = next_times(instance, state).isfinite()
        return (able & self.can_go_on(instance, state)[..., None]).view(-1, jobs * machines)

    def resources(self, instance: Instance, state: State) -> Tensor:
        """The job and the machine; operations of time 0 take a machine of their own."""
        times = next_times(instance, state)  # [R, J, M]
        job, machine = (torch.arange(count, device=times.device) for count in times.shape[1:])
        job, machine = job[:, None].expand_as(times), machine.expand_as(times)
        machine = machine.where(times > 0, times.shape[2] + job)
        return torch.stack([job, machine], dim=3).flatten(1, 2)

    def decisions(self, instance: Instance, jobs: Tensor, machines: Tensor) -> Tensor:
        return jobs * instance.times.shape[3] + machines

    def earliest_starts(self, instance: Instance, state: State) -> Tensor:
        return next_starts(instance, state).amin(dim=2)
