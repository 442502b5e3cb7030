"""How evaluations show instances and solutions of job shops, flexible ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.reports import Reports
from gumbeldore.runtime.checked import is_number
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

    def actions_of(self, originals: Any, index: int, solution: Any) -> Tensor:
        """The decisions of a plan: of each job the operations, fixed ones included, as `schedule` or as starts alone.

        The plan need not be feasible: the order of the starts counts. So a plan can be kept that is late by now.
        """
        if not isinstance(originals, Original):
            return super().actions_of(originals, index, solution)
        there, is_fixed = originals.there[index], originals.is_fixed[index]
        lengths = there.sum(dim=1).tolist()
        if not isinstance(solution, (list, tuple)) or [_length(job) for job in solution] != lengths:
            raise ValueError(f"it must be a list of jobs with {', '.join(map(str, lengths))} operations")
        first, machines, starts = int(originals.first[index]), originals.machines[index], []
        for job, operations in enumerate(solution):
            mine = [_machine_and_start(operation) for operation in operations]
            own = (machines[job][there[job]] + first).tolist()
            for place, (machine, start) in enumerate(mine):
                what = f"operation {place} of job {job + first}"
                if machine not in (None, own[place]):
                    raise ValueError(f"{what} is for machine {own[place]}, not for {machine}")
                if starts and place and start < starts[-1]:
                    raise ValueError(f"{what} starts before the operation before it")
                starts.append(start)
        order = torch.tensor(starts, dtype=torch.float64).argsort(stable=True)
        job = there.nonzero()[:, 0]
        return job[order[~is_fixed[there][order]]]

    def render(self, instance: Instance | Original, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with one Gantt chart per schedule, jobs and machines numbered as in the input."""
        original, jobs = self.assigned(instance, actions)
        return plot_schedules(original, original.all_starts(schedule(original.to_schedule(), jobs)), titles)


def _length(job: Any) -> int:
    """The number of operations in a plan; -1 of what is no list."""
    return len(job) if isinstance(job, (list, tuple)) else -1


def _machine_and_start(operation: Any) -> tuple[int | None, float]:
    """Of an `Operation`, three numbers as in a `.json`, or the start alone."""
    machine, start = (operation[0], operation[1]) if _length(operation) == 3 else (None, operation)
    if not is_number(start):
        raise ValueError(f"an operation is (machine, start, end) or a start, got {operation!r}")
    return machine, start
