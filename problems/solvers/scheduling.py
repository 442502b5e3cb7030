"""OR-Tools' CP-SAT for the JSSP; one thread per instance."""

from __future__ import annotations

import math
import time
from importlib.metadata import version

import numpy as np

from problems.jssp.instances import Original
from problems.solvers.answer import Answer, Options, SolverError

LARGEST = 1 << 40  # the sum of all times that CP-SAT can do sums of in 64 bits


def solve_jssp(original: Original, options: Options) -> Answer:
    """The schedule of one instance: times [J, M], machines [J, M]."""
    from ortools.sat.python import cp_model

    begin = time.perf_counter()
    times, machines = original.times.numpy(), original.machines.numpy()
    model, start, makespan = job_shop_model(times, machines)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = options.time_limit
    solver.parameters.random_seed = options.seed
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False  # or Ctrl-C would end this one search, and nothing else
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        nothing = f"CP-SAT found no schedule within {options.time_limit:g} s ({solver.status_name(status)})"
        raise SolverError(f"{nothing}; give it more time")
    values = np.array([[solver.value(variable) for variable in row] for row in start])
    release = ".".join(version("ortools").split(".")[:2])
    return Answer(
        actions=_jobs_in_order(values, times),
        lowest=math.ceil(solver.best_objective_bound - 1e-6),  # a whole number up to the solver's own rounding
        highest=solver.value(makespan),  # less if operations can start earlier in the same order
        kind="optimal (CP-SAT)" if status == cp_model.OPTIMAL else f"CP-SAT {release}, {options.time_limit:g} s",
        seconds=time.perf_counter() - begin,
    )


def job_shop_model(times: np.ndarray, machines: np.ndarray) -> tuple:
    """The constraint model, its start variables [J][M] and its makespan variable."""
    from ortools.sat.python import cp_model

    jobs, ops = times.shape
    horizon = sum(times.flatten().tolist())  # one operation after the other
    if horizon > LARGEST:
        raise SolverError(f"times that add up to {horizon:g} are too large for CP-SAT, which takes {LARGEST:g}")
    model = cp_model.CpModel()
    makespan = model.new_int_var(0, horizon, "makespan")
    start = [[model.new_int_var(0, horizon, f"start {job} {op}") for op in range(ops)] for job in range(jobs)]
    on_machine: list[list] = [[] for _ in range(ops)]
    for job in range(jobs):
        for op in range(ops):
            takes, begins = int(times[job, op]), start[job][op]
            if takes:  # an operation of time 0 takes no machine
                interval = model.new_fixed_size_interval_var(begins, takes, f"operation {job} {op}")
                on_machine[machines[job, op]].append(interval)
            model.add((start[job][op + 1] if op + 1 < ops else makespan) >= begins + takes)
    for intervals in on_machine:
        model.add_no_overlap(intervals)
    model.minimize(makespan)
    return model, start, makespan


def _jobs_in_order(start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The jobs [J*M] of the operations in the order of their start times [J, M].

    Of operations that start together, those that take no time come first and a job's own stay in their order, so that
    whatever an operation waits for comes before it: started as early as possible in this order, none starts later.
    """
    order = np.lexsort(((start + times).flatten(), start.flatten()))  # stable: by start, then by end
    return order // times.shape[1]
