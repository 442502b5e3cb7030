"""The established solver of the JSSP."""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.jssp.instances import Instance
from problems.jssp.originals import Original, cost_of_fixed, original_of
from problems.solvers.answer import Answer, Options
from problems.solvers.backends import BACKENDS, Backend
from problems.solvers.scheduling import Due, Task, best_schedule

CP_SAT = "ortools.sat.python.cp_model"


def solve(original: Original, options: Options) -> Answer:
    """The schedule of one instance, a row of originals."""
    whole = Original(*(field[None] for field in original))
    shop = whole.to_schedule()
    tasks, due = tasks_of(shop), due_of(original)
    found = best_schedule(tasks, shop.release[0].tolist(), shop.machine_release[0].tolist(), due, options)
    actions = np.array([tasks[task].job for task in found.order])
    fixed = int(cost_of_fixed(whole)[0])
    lowest, cost = (each + fixed if due else max(each, fixed) for each in (found.lowest, found.cost))
    return Answer(actions, lowest, cost, found.kind, found.seconds)


def due_of(original: Any) -> Due | None:
    """Due dates and weights of one instance, a row of originals; None where the makespan is minimised."""
    return Due(original.due.tolist(), original.weight.tolist()) if original.weight.any() else None


def tasks_of(shop: Instance) -> list[Task]:
    """The operations of one shop in whole numbers."""
    operations = shop.operations[0]
    fields = (each.flatten()[operations].tolist() for each in (shop.waits, shop.machines, shop.times))
    jobs = (operations // shop.times.shape[2]).tolist()
    return [Task(job, wait, [(machine, takes)]) for job, wait, machine, takes in zip(jobs, *fields, strict=True)]


def originals(instances: Instance) -> Original:
    return Original(*(field.long() for field in original_of(instances)))  # drawn as whole numbers


BACKENDS["jssp"] = Backend("OR-Tools", "ortools", CP_SAT, solve, patience=False, originals=originals, exact=True)
