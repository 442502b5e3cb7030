"""How evaluations show instances and solutions of the JSSP."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from gumbeldore.reports import Reports
from problems.jssp.instances import Instance, Original, check_schedule, schedule
from problems.jssp.plots import plot_schedules

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Operation(NamedTuple):
    """Of a job, in the instance's own units."""

    machine: int  # as the input numbers it
    start: int
    end: int


class JSSPReports(Reports):
    """A solution is shown as its actions: the jobs, from 0, in the order in which their operations are scheduled."""

    def size(self, instance: Instance, horizon: int) -> str:
        """jobs x machines"""
        return "x".join(map(str, instance.times.shape[1:]))

    def details(self, originals: Original, index: int, actions: Tensor) -> tuple[str, list[str], list[list[int]]]:
        """The schedule in the instance's own units: file name, columns and a row per operation.

        Operations are counted from 0, jobs and machines from the number of the first machine in the input.
        """
        times, machines = originals.times[index, None], originals.machines[index, None]
        start = schedule(times, machines, actions[None])
        check_schedule(times, machines, start)
        job, op = torch.meshgrid(*(torch.arange(n) for n in times.shape[1:]), indexing="ij")
        first = originals.first[index]
        rows = torch.stack([job + first, op, machines[0] + first, start[0], (start + times)[0]], dim=-1).flatten(0, 1)
        return "schedules.csv", ["job", "operation", "machine", "start", "end"], rows.tolist()

    def solution_file(
        self, originals: Original, index: int, name: str, actions: Tensor, cost: float
    ) -> tuple[str, str]:
        """A `.csv` with a row per operation."""
        _, header, rows = self.details(originals, index, actions)
        return ".csv", "".join(",".join(map(str, row)) + "\n" for row in [header, *rows])

    def has_files(self, originals: Original, index: int) -> bool:
        """No: the table of all solutions has the same rows."""
        return False

    def named_solution(self, originals: Original, index: int, actions: Tensor) -> dict[str, list[list[Operation]]]:
        """`schedule`: the operations of each job, in their order"""
        _, _, rows = self.details(originals, index, actions)
        jobs, machines = originals.times[index].shape
        operations = [Operation(*row[2:]) for row in rows]
        return {"schedule": [operations[job * machines : (job + 1) * machines] for job in range(jobs)]}

    def render(self, instance: Instance | Original, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with one Gantt chart per schedule, jobs and machines numbered as in the input."""
        start = schedule(instance.times, instance.machines, actions)
        first = instance.first.tolist() if isinstance(instance, Original) else [0] * len(actions)
        return plot_schedules(instance.times, instance.machines, start, titles, first)
