"""How evaluations show instances and solutions of job shops, flexible ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.reports import Reports
from problems.jssp.instances import Instance
from problems.jssp.originals import Original, original_of
from problems.jssp.plots import plot_schedules
from problems.jssp.schedules import check_schedule, schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Operation(NamedTuple):
    """Of a job, in the instance's own units."""

    machine: int  # as the input numbers it
    start: int
    end: int


class ShopReports(Reports):
    """A solution is shown as its actions: the jobs, from 0, in the order in which their operations are scheduled.

    Those of flexible job shops are j * M + m each.
    """

    def assigned(self, shop: Any, actions: Tensor) -> tuple[Original, Tensor]:
        """The job shops of the machines that solutions [n, T] choose, in the unit of those given, and their jobs."""
        given, jobs = shop.assigned(actions)
        return given if isinstance(given, Original) else original_of(given), jobs

    def size(self, instance: Instance, horizon: int) -> str:
        """jobs x machines"""
        return f"{instance.release.shape[1]}x{instance.machine_release.shape[1]}"

    def details(self, originals: Original, index: int, actions: Tensor) -> tuple[str, list[str], list[list[int]]]:
        """The schedule in the instance's own units: file name, columns and a row per operation, fixed ones included.

        Operations are counted from 0, jobs and machines from the number of the first machine in the input.
        """
        jobs = self.named_solution(originals, index, actions)["schedule"]
        first = int(originals.first[index])
        rows = [[job, op, *operation] for job, row in enumerate(jobs, start=first) for op, operation in enumerate(row)]
        return "schedules.csv", ["job", "operation", "machine", "start", "end"], rows

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
        original, jobs = self.assigned(take(originals, slice(index, index + 1)), actions[None])
        shop = original.to_schedule()
        start = schedule(shop, jobs)
        check_schedule(shop, start)
        start = original.all_starts(start)[0]
        machines = original.machines[0] + original.first
        fields = machines, start, start + original.times[0]
        there = original.there[0]
        return {
            "schedule": [
                [Operation(*row) for row in zip(*(field[job][there[job]].tolist() for field in fields), strict=True)]
                for job in range(len(there))
            ]
        }

    def render(self, instance: Instance | Original, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with one Gantt chart per schedule, jobs and machines numbered as in the input."""
        original, jobs = self.assigned(instance, actions)
        return plot_schedules(original, original.all_starts(schedule(original.to_schedule(), jobs)), titles)
