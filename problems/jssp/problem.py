"""The job shop scheduling problem: order the operations of jobs on machines so that all ends early [GD, D.4]."""

from __future__ import annotations

import math
from copy import copy

import torch
from torch import Tensor

from gumbeldore.batches import repeated, to
from problems.jssp.instances import Instance, random_general_instances, random_instances
from problems.jssp.objectives import MAKESPAN
from problems.jssp.reports import ShopReports
from problems.jssp.sets import JobShopSets
from problems.jssp.shop import Shop
from problems.jssp.state import State, after, earliest_starts, next_operations
from problems.jssp.window import LARGE


class JSSP(Shop):
    """An action is the job whose next operation starts as early as it can (A = J); a decision for each operation.

    Arguments:
        general: the probability that the instances of an epoch are general job shops (`random_general_instances`): jobs
            of different lengths, repeated visits to machines, releases, waits. Not in the paper.
    """

    name = "jssp"
    reports = ShopReports()
    sets = JobShopSets
    dimensions = {
        "times": 2,
        "machines": 2,
        "release": 1,
        "machine_release": 1,
        "waits": 2,
        "fixed": 2,
        "due": 1,
        "weight": 1,
    }

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
        objective: str = MAKESPAN,
    ):
        super().__init__(sizes, validation_sizes, reversal, grow, chronological, window, jobs_in_view, objective)
        if not 0 <= general <= 1:
            raise ValueError(f"general must be a share in 0..1, got {general}")
        self.general = general

    def generate(self, n: int, generator: torch.Generator) -> Instance:
        """n instances of one of the sizes, all classical or all general."""
        jobs, ops = self.drawn_size(generator)
        general = self.general and float(torch.rand((), dtype=torch.float32, generator=generator)) < self.general
        draw = random_general_instances if general else random_instances
        return self.with_objective(draw(n, jobs, ops, generator), generator)

    def for_evaluation(self) -> JSSP:
        """Of shops that are large, and larger than those of the training, a part is in view if nothing else is said.

        Measured for the makespan alone (docs/decisions.md).
        """
        if self.objective != MAKESPAN:
            return self
        evaluated, trained = copy(self), max(jobs * machines for jobs, machines in self.sizes)
        evaluated.window = self.window.from_size(max(LARGE, trained) + 1)
        return evaluated

    def num_actions(self, instance: Instance) -> int:
        return instance.times.shape[1]

    def last_choice(self, instance: Instance) -> int:
        return max(0, self.horizon(instance) - 2)  # with one operation left the move is forced

    def step(self, instance: Instance, state: State, action: Tensor) -> State:
        job = action[:, None]  # [R, 1]
        operation = job * instance.times.shape[2] + state.next_op.gather(1, job)
        machine, time = (field.flatten(1).gather(1, operation) for field in (instance.machines, instance.times))
        return self.with_view(instance, after(instance, state, operation, machine, time))

    def mask(self, instance: Instance, state: State) -> Tensor:
        return self.can_go_on(instance, state)

    def resources(self, instance: Instance, state: State) -> Tensor:
        """The job, and the machine of its next operation; operations of time 0 take a machine of their own."""
        times, machine = next_operations(instance, state)
        job = torch.arange(times.shape[1], device=times.device).expand_as(machine)
        return torch.stack([job, machine.where(times > 0, instance.machine_release.shape[1] + job)], dim=2)

    @property
    def prefers_local_search(self) -> bool:
        return self.objective == MAKESPAN  # the only one that it knows

    def prepare_local_search(self) -> None:
        """Compile the local search. Raises ValueError for another objective than the makespan."""
        if self.objective != MAKESPAN:
            raise ValueError(f"the local search minimises the makespan, not {self.objective}")
        from problems.jssp.local_search.solutions import prepare

        prepare()

    def local_search(
        self, instance: Instance, actions: Tensor, steps: float, seeds: Tensor, deadline: float = math.inf
    ) -> Tensor:
        """Tabu search and path relinking on the CPU, one instance after the other (`problems.jssp.local_search`)."""
        from problems.jssp.local_search.solutions import searched

        found = searched(to(instance, "cpu"), actions.cpu(), steps, seeds.cpu(), deadline).to(actions.device)
        every = torch.cat([actions, found[:, None]], dim=1)  # [R, K + 1, T]
        costs = self.cost(repeated(instance, every.shape[1]), every.flatten(0, 1)).view(every.shape[:2])
        return every[torch.arange(len(every), device=every.device), costs.argmin(dim=1)]  # the first of equals

    def decisions(self, instance: Instance, jobs: Tensor, machines: Tensor) -> Tensor:
        return jobs

    def earliest_starts(self, instance: Instance, state: State) -> Tensor:
        return earliest_starts(instance, state)
