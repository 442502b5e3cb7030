"""How evaluations show instances and solutions of the JSSP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gumbeldore.reports import Reports
from problems.jssp.instances import Instance, Original, check_schedule, schedule
from problems.jssp.plots import plot_schedules

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    def render(self, instance: Instance | Original, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with one Gantt chart per schedule, jobs and machines numbered as in the input."""
        start = schedule(instance.times, instance.machines, actions)
        first = instance.first.tolist() if isinstance(instance, Original) else [0] * len(actions)
        return plot_schedules(instance.times, instance.machines, start, titles, first)
