"""Solutions of established solvers for the instances of a set: references to be compared with, and experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem, without_references
from gumbeldore.runtime.checked import Limits, check, check_integer
from gumbeldore.runtime.files import cache_folder
from gumbeldore.runtime.hardware import SOLVER_THREADS
from problems.solvers.answer import Answer, Options, SolverError
from problems.solvers.backends import Backend, backend_of
from problems.solvers.cache import Cache, key_of
from problems.solvers.pool import row_of, solve_all

LARGEST_SEED = 2**31 - 1  # CP-SAT's

Progress = Callable[[int], None]


class SolverResult(NamedTuple):
    """One solution for each of the instances asked for, checked."""

    actions: Tensor  # [n, T] int64; -1 where none is found
    costs: Tensor  # [n] float64, true costs; NaN where no solution is found
    kinds: list[str]  # n; how good each is, e.g. "optimal (CP-SAT)", or why there is none
    seconds: Tensor  # [n] float64 wall-clock, also of answers kept from earlier
    bounds: Tensor  # [n] float64: no solution of an instance costs less; NaN: nothing is known


class Solver:
    """PyVRP (TSP, CVRP) and CP-SAT (JSSP, FJSP); answers are kept and not computed again.

    CP-SAT with several threads may find another solution each time.

    Arguments:
        time_limit: seconds per instance
        workers: Ray actors, each of which solves one instance at a time; 0: this process does, without Ray
        seed: of the solver's random numbers
        patience: PyVRP stops after so many iterations without improvement, if that comes first; None: it does not
        folder: where answers are kept; None: the user's cache folder
        threads: of CP-SAT, shared among the workers, at least one each; PyVRP has one
    """

    def __init__(
        self,
        time_limit: float,
        workers: int = 0,
        seed: int = 0,
        patience: int | None = None,
        folder: Path | None = None,
        threads: int = SOLVER_THREADS,
    ):
        check("time_limit", time_limit, float, Limits(above=0))
        check_integer("workers", workers, 0)
        check_integer("seed", seed, 0, LARGEST_SEED)
        if patience is not None:
            check_integer("patience", patience, 1)
        check_integer("threads", threads, 1)
        self.options = Options(float(time_limit), seed, patience, max(1, threads // max(1, workers)))
        self.workers = workers
        self.cache = Cache(folder or cache_folder("solvers"))

    def solve(
        self,
        problem: str,
        instance_set: InstanceSet,
        progress: Progress = lambda done: None,
        indices: list[int] | None = None,
        leave_out: bool = False,
    ) -> SolverResult:
        """Solve the instances, each answer verified by the instance set's own true cost.

        Arguments:
            problem: its name
            instance_set: with the `originals` of that problem
            progress: called with the number of instances solved since the last call
            indices: of the instances to solve; None: all
            leave_out: go on without the instances for which the solver finds nothing; its next try is anew

        Raises ValueError (SolverError) if a solver is missing, finds nothing, or its answer is not what it claims.
        """
        backend = backend_of(problem)
        if self.options.patience is not None and not backend.patience:
            raise ValueError(f"patience has no effect on {problem}: {backend.title} has no such iterations")
        indices = list(range(len(instance_set.names))) if indices is None else indices
        if not indices:
            raise ValueError("there are no instances to solve")
        keys = {i: key_of(problem, row_of(instance_set.originals, i), backend, self.options) for i in indices}
        answers, costs = self._known(instance_set, keys, backend)
        progress(len(answers))
        missing = [i for i in indices if i not in answers]
        found = solve_all(backend, instance_set.originals, instance_set.names, missing, self.options, self.workers)
        for i, answer in found:
            answers[i], costs[i] = answer, math.nan
            if answer.actions.size:
                costs[i] = verified_cost(instance_set, i, answer, backend)
                self.cache.write(keys[i], answer)
            elif not leave_out:
                raise SolverError(f"{instance_set.names[i]}: {answer.kind}")
            progress(1)
        return _result([answers[i] for i in indices], [costs[i] for i in indices], backend)

    def _known(
        self, instance_set: InstanceSet, keys: dict[int, str], backend: Backend
    ) -> tuple[dict[int, Answer], dict[int, float]]:
        """The answers kept from earlier, and their costs; wrong ones count as damaged."""
        answers: dict[int, Answer] = {}
        costs: dict[int, float] = {}
        for i, key in keys.items():
            answer = self.cache.read(key)
            if answer is not None:
                try:
                    costs[i] = verified_cost(instance_set, i, answer, backend)
                except ValueError:
                    continue
                answers[i] = answer
        return answers, costs


def _result(answers: list[Answer], costs: list[float], backend: Backend) -> SolverResult:
    """The answers for several instances, with their true costs."""
    actions = torch.full((len(answers), max(len(each.actions) for each in answers)), -1)
    for row, each in zip(actions, answers, strict=True):
        row[: len(each.actions)] = torch.tensor(each.actions)
    return SolverResult(
        actions=actions,
        costs=torch.tensor(costs, dtype=torch.float64),
        kinds=[each.kind for each in answers],
        seconds=torch.tensor([each.seconds for each in answers], dtype=torch.float64),
        bounds=torch.tensor([each.lowest if backend.exact else math.nan for each in answers], dtype=torch.float64),
    )


def verified_cost(instance_set: InstanceSet, index: int, answer: Answer, backend: Backend) -> float:
    """The true cost of an answer. Raises SolverError if it is no solution or costs something else than it claims."""
    name, title = instance_set.names[index], backend.title
    try:
        cost = float(instance_set.true_cost(torch.tensor([index]), torch.tensor(answer.actions)[None]))
    except ValueError as error:
        raise SolverError(f"{name}: the answer of {title} is no solution: {error}") from None
    if not answer.lowest <= cost <= answer.highest:
        claim = f"{answer.lowest:.10g}" + (f" to {answer.highest:.10g}" if answer.highest > answer.lowest else "")
        raise SolverError(f"{name}: {title} claims a cost of {claim}, the solution costs {cost:.10g}")
    return cost


def with_references(
    problem: str, instance_set: InstanceSet, solver: Solver, progress: Progress = lambda done: None
) -> InstanceSet:
    """The instance set with a reference for each instance that had none; those it has are kept.

    An instance that the solver does not solve stays without one, and a warning says why.
    """
    missing = instance_set.references.isnan().nonzero().flatten().tolist()
    if not missing:
        return instance_set
    result = solver.solve(problem, instance_set, progress, missing, leave_out=True)
    references, kinds = instance_set.references.clone(), list(instance_set.kinds)
    solutions, warnings = dict(instance_set.solutions), list(instance_set.warnings)
    # There is no gap to a cost of 0, unless gaps are those of sums.
    references[missing] = result.costs.where((result.costs > 0) | instance_set.pooled, torch.nan)
    for place, actions, cost, kind in zip(missing, result.actions, result.costs, result.kinds, strict=True):
        kinds[place] = "" if references[place].isnan() else kind
        if cost.isnan():
            warnings.append(f"{instance_set.names[place]} has no reference: {kind}")
        else:
            solutions[place] = actions
    return instance_set._replace(references=references, kinds=kinds, solutions=solutions, warnings=warnings)


def as_instance_set(problem: Problem, instances: Any) -> InstanceSet:
    """Instances that `problem` has generated, without references; the true cost is the problem's own in float64."""
    fields = (field.double() if field.is_floating_point() else field for field in instances)
    precise = type(instances)(*fields)
    unsolved = without_references(problem, precise, problem.name)
    return unsolved._replace(instances=instances, originals=backend_of(problem.name).originals(precise))
