"""The established solver of the FJSP."""

from __future__ import annotations

import numpy as np

from problems.fjsp.originals import Original, original_of
from problems.jssp.solver import CP_SAT, due_of
from problems.solvers.answer import Answer, Options
from problems.solvers.backends import BACKENDS, Backend
from problems.solvers.scheduling import Task, best_schedule


def solve(original: Original, options: Options) -> Answer:
    """The schedule of one instance, a row of originals."""
    jobs, _, machines = original.times.shape
    tasks = [
        Task(job, wait, [(machine, takes) for machine, takes in enumerate(times) if takes >= 0])
        for job in range(jobs)
        for times, wait in zip(original.times[job].tolist(), original.waits[job].tolist(), strict=True)
        if max(times) >= 0
    ]
    due = due_of(original)
    found = best_schedule(tasks, original.release.tolist(), original.machine_release.tolist(), due, options)
    on = [task.options[place][0] for task, place in zip(tasks, found.chosen, strict=True)]
    actions = np.array([tasks[task].job * machines + on[task] for task in found.order])
    return Answer(actions, found.lowest, found.cost, found.kind, found.seconds)


BACKENDS["fjsp"] = Backend("OR-Tools", "ortools", CP_SAT, solve, patience=False, originals=original_of, exact=True)
