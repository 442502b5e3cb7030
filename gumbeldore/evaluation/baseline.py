"""What an evaluation compares a policy with: solutions that no network finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from gumbeldore.evaluation.parts import Parts, SolvedSet
from gumbeldore.evaluation.solved_sets import solve_set
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.checked import Checked, at_least, positive
from gumbeldore.runtime.hardware import SOLVER_THREADS
from gumbeldore.sampler.methods import Method

Advance = Callable[[int], None]  # called with the number of instances done since the last call


@dataclass(frozen=True, kw_only=True)
class SolverSettings(Checked):
    """The established solver, of references=solver and method=solver.

    Arguments:
        time_limit: seconds per instance; in a study method=solver takes search.time_limit
        workers: Ray actors, one instance at a time each; 0: this process
        threads: of CP-SAT, which tries several strategies with several threads, also on fewer cores; shared among the
            workers, at least one each; PyVRP has one
    """

    prefix = "solver."

    time_limit: float = positive(5.0)
    workers: int | str = at_least(0, "auto", word="auto")
    threads: int = at_least(1, SOLVER_THREADS)


@runtime_checkable
class Baseline(Protocol):
    """A method of an evaluation that needs no policy, such as a solver or a classical heuristic."""

    def check(self, problem: str) -> None:
        """Raises ValueError if the method cannot solve the problem of that name, or not on this machine."""

    def solve(self, problem: str, instance_set: InstanceSet, progress: Callable[[int], None]) -> Mapping[str, tuple]:
        """Solve every instance with each heuristic that the method offers; an evaluation shows the best of them.

        Arguments:
            problem: its name
            instance_set: with the `originals` of that problem
            progress: called with the number of instances solved since the last call

        Returns by the name of the heuristic: actions [n, T] and the wall-clock seconds of all instances together; of a
        solver also bounds [n] float64 that no solution costs less than (NaN: nothing is known), and n texts that say
        how good each solution is, such as "optimal (CP-SAT)". Actions of -1 are no solution; the text then says why.
        Raises ValueError for an instance that cannot be solved and may not be left out.
        """


def solve_with(
    method: Method | Baseline, pool: SearchPool, instance_set: InstanceSet, seed: int, advance: Advance, parts: Parts
) -> None:
    """Add to `parts` what a method finds for the instances that have no solution there yet."""
    if isinstance(method, Method):
        solve_set(pool, instance_set, method, seed, advance, parts)
    else:
        solve_baseline(method, pool.problem, instance_set, advance, parts)


def solve_baseline(
    method: Baseline, problem: Problem, instance_set: InstanceSet, advance: Advance, parts: Parts
) -> None:
    """Add to `parts` what each heuristic of a method finds for the instances that have no solution there yet.

    A method may say how many instances are worth a call of `solve` (`per_part`); by default, all of them are one.
    The time of each heuristic is that of all, which had to be tried to find the best.
    """
    count = len(instance_set.names)
    per_part = getattr(method, "per_part", count)
    division = [slice(first, min(first + per_part, count)) for first in range(0, count, per_part)]
    parts.keep_only(division)
    for rows in division:
        if rows in parts and not parts.lacks(rows):  # with another time limit, or luck, a solver finds what it did not
            continue
        some = instance_set.part(torch.arange(rows.start, rows.stop))
        solved = method.solve(problem.name, some, advance)
        seconds = sum(values[1] for values in solved.values())
        found = {}
        for heuristic, (actions, _, *known) in solved.items():
            costs = torch.full((len(actions),), torch.nan, dtype=torch.float64)
            rest = (actions >= 0).any(dim=1).nonzero().flatten()
            if len(rest):
                costs[rest] = some.true_cost(rest, actions[rest])
            else:
                actions = torch.full((len(actions), problem.horizon(some.instances)), -1)
            found[heuristic] = SolvedSet.without_policy(actions, costs, seconds, *known)
        parts.add(rows, found)
