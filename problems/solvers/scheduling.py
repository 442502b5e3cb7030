"""OR-Tools' CP-SAT for job shops, flexible ones included."""

from __future__ import annotations

import math
import time
from importlib.metadata import version
from typing import Any, NamedTuple

import torch

from problems.jssp.schedules import order_by
from problems.solvers.answer import Options, SolverError

LARGEST = 1 << 40  # the sum of all times that CP-SAT can do sums of in 64 bits


class Task(NamedTuple):
    """An operation; the tasks of a job stand in their order. An operation of time 0 takes no machine."""

    job: int
    wait: int  # before the job's next one
    options: list[tuple[int, int]]  # machine and time, one option at least


class Due(NamedTuple):
    """What the weighted tardiness asks of each job."""

    date: list[int]
    weight: list[int]


class Schedule(NamedTuple):
    """What CP-SAT found, in whole numbers."""

    order: list[int]  # the tasks by their starts
    chosen: list[int]  # the option of each task
    lowest: int  # no cost is below
    cost: int  # less is possible if operations can start earlier in the same order
    kind: str
    seconds: float


class Model(NamedTuple):
    """The constraint model of a shop."""

    model: Any
    cost: Any  # a variable or a sum of variables
    starts: list  # a variable for each task
    chosen: list[list]  # for each task a literal for each option; none where there is one option


def best_schedule(
    tasks: list[Task], release: list[int], machine_release: list[int], due: Due | None, options: Options
) -> Schedule:
    """The schedule of a shop with releases of its jobs and of its machines. Raises SolverError if none is found.

    Without due dates it is the makespan that is minimised.

    Of operations that start together, those that take no time come first and a job's own stay in their order, so that
    whatever an operation waits for comes before it: started as early as possible in this order, none starts later.
    """
    from ortools.sat.python import cp_model

    begin = time.perf_counter()
    model, cost, starts, literals = model_of(tasks, release, machine_release, due)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = options.time_limit
    solver.parameters.random_seed = options.seed
    solver.parameters.num_workers = options.threads  # one has no portfolio of strategies
    solver.parameters.catch_sigint_signal = False  # or Ctrl-C would end this one search, and nothing else
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        nothing = f"CP-SAT found no schedule within {options.time_limit:g} s ({solver.status_name(status)})"
        raise SolverError(f"{nothing}; give it more time")
    chosen = [next((place for place, literal in enumerate(each) if solver.value(literal)), 0) for each in literals]
    start = torch.tensor([[solver.value(variable) for variable in starts]])
    takes = torch.tensor([[task.options[place][1] for task, place in zip(tasks, chosen, strict=True)]])
    limits = f"{options.time_limit:g} s" + (f", {options.threads} threads" if options.threads > 1 else "")
    kind = f"CP-SAT {'.'.join(version('ortools').split('.')[:2])}, {limits}"
    return Schedule(
        order=order_by(start, start + takes)[0].tolist(),
        chosen=chosen,
        lowest=math.ceil(solver.best_objective_bound - 1e-6),  # a whole number up to the solver's own rounding
        cost=solver.value(cost),
        kind="optimal (CP-SAT)" if status == cp_model.OPTIMAL else kind,
        seconds=time.perf_counter() - begin,
    )


def model_of(tasks: list[Task], release: list[int], machine_release: list[int], due: Due | None = None) -> Model:
    """The constraint model of a shop. Raises SolverError if its numbers are too large."""
    from ortools.sat.python import cp_model

    # One operation after the other, each on its slowest machine, once all are released.
    slowest = sum(max(takes for _, takes in task.options) for task in tasks)
    horizon = max(release + machine_release) + slowest + sum(task.wait for task in tasks)
    worst = sum(w * (horizon + abs(d)) for d, w in zip(due.date, due.weight, strict=True)) if due else horizon
    if worst > LARGEST:
        raise SolverError(f"times that add up to {worst:g} are too large for CP-SAT, which takes {LARGEST:g}")
    model = cp_model.CpModel()
    makespan = model.new_int_var(0, horizon, "makespan")
    ends: dict[int, Any] = {}  # of the last operation of each job
    on_machine: list[list] = [[] for _ in machine_release]
    starts, chosen, ready = [], [], 0
    for number, task in enumerate(tasks):
        begins = model.new_int_var(release[task.job], horizon, f"start {number}")
        literals = [model.new_bool_var(f"{number} on {m}") for m, _ in task.options] if len(task.options) > 1 else []
        if number and tasks[number - 1].job == task.job:
            model.add(begins >= ready)
        if literals:
            model.add_exactly_one(literals)
        takes = 0
        for (machine, lasts), literal in zip(task.options, literals or [True], strict=True):
            takes += literal * lasts
            if lasts:
                model.add(begins >= machine_release[machine]).only_enforce_if(literal)
                interval = model.new_optional_fixed_size_interval_var(begins, lasts, literal, f"{number} on {machine}")
                on_machine[machine].append(interval)
        model.add(makespan >= begins + takes)
        ends[task.job] = begins + takes
        ready = begins + takes + task.wait
        starts.append(begins)
        chosen.append(literals)
    for intervals in on_machine:
        model.add_no_overlap(intervals)
    cost = makespan
    if due:
        late = {job: model.new_int_var(0, horizon + abs(due.date[job]), f"tardiness {job}") for job in ends}
        for job, end in ends.items():
            model.add(late[job] >= end - due.date[job])
        cost = sum(due.weight[job] * tardiness for job, tardiness in late.items())
    model.minimize(cost)
    return Model(model, cost, starts, chosen)
