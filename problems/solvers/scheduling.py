"""OR-Tools' CP-SAT for the JSSP; one thread per instance."""

from __future__ import annotations

import math
import time
from importlib.metadata import version

import torch
from torch import Tensor

from problems.jssp.instances import Instance
from problems.jssp.originals import Original
from problems.jssp.schedules import order_by
from problems.solvers.answer import Answer, Options, SolverError

LARGEST = 1 << 40  # the sum of all times that CP-SAT can do sums of in 64 bits


def solve_jssp(original: Original, options: Options) -> Answer:
    """The schedule of one instance, a row of originals."""
    from ortools.sat.python import cp_model

    begin = time.perf_counter()
    shop = Original(*(field[None] for field in original)).to_schedule()
    model, start, makespan = job_shop_model(shop)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = options.time_limit
    solver.parameters.random_seed = options.seed
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False  # or Ctrl-C would end this one search, and nothing else
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        nothing = f"CP-SAT found no schedule within {options.time_limit:g} s ({solver.status_name(status)})"
        raise SolverError(f"{nothing}; give it more time")
    values = torch.tensor([solver.value(variable) for variable in start])
    fixed = int(original.fixed_ends.max())
    release = ".".join(version("ortools").split(".")[:2])
    return Answer(
        actions=_jobs_in_order(shop, values).numpy(),
        # A whole number up to the solver's own rounding.
        lowest=max(math.ceil(solver.best_objective_bound - 1e-6), fixed),
        highest=max(solver.value(makespan), fixed),  # less if operations can start earlier in the same order
        kind="optimal (CP-SAT)" if status == cp_model.OPTIMAL else f"CP-SAT {release}, {options.time_limit:g} s",
        seconds=time.perf_counter() - begin,
    )


def job_shop_model(shop: Instance) -> tuple:
    """The constraint model of one shop in whole numbers, the starts [T] of its operations, and its makespan."""
    from ortools.sat.python import cp_model

    ops = shop.times.shape[2]
    operations = shop.operations[0]
    fields = (shop.times, shop.waits, shop.machines)
    times, waits, machines = (field.flatten()[operations].tolist() for field in fields)
    jobs = (operations // ops).tolist()
    release, machine_release = shop.release[0].tolist(), shop.machine_release[0].tolist()
    # One operation after the other, once all are released.
    horizon = max(release + machine_release) + sum(times) + sum(waits)
    if horizon > LARGEST:
        raise SolverError(f"times that add up to {horizon:g} are too large for CP-SAT, which takes {LARGEST:g}")
    model = cp_model.CpModel()
    makespan = model.new_int_var(0, horizon, "makespan")
    start, on_machine = [], [[] for _ in machine_release]
    for number, (job, takes, machine) in enumerate(zip(jobs, times, machines, strict=True)):
        # An operation of time 0 takes no machine.
        earliest = max(release[job], machine_release[machine] if takes else 0)
        begins = model.new_int_var(earliest, horizon, f"start {number}")
        if number and jobs[number - 1] == job:
            model.add(begins >= start[-1] + times[number - 1] + waits[number - 1])
        model.add(makespan >= begins + takes)
        if takes:
            on_machine[machine].append(model.new_fixed_size_interval_var(begins, takes, f"operation {number}"))
        start.append(begins)
    for intervals in on_machine:
        model.add_no_overlap(intervals)
    model.minimize(makespan)
    return model, start, makespan


def _jobs_in_order(shop: Instance, start: Tensor) -> Tensor:
    """The jobs [T] of the operations in the order of their start times [T].

    Of operations that start together, those that take no time come first and a job's own stay in their order, so that
    whatever an operation waits for comes before it: started as early as possible in this order, none starts later.
    """
    times = shop.times.flatten()[shop.operations[0]]
    order = order_by(start[None], (start + times)[None])[0]
    return shop.operations[0][order] // shop.times.shape[2]
