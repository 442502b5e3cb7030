"""The classical heuristics of each problem, which registers its own, as one baseline of an evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.instance_set import InstanceSet
from problems.common.registry import Registry


class Found(NamedTuple):
    """One solution per instance."""

    actions: Tensor  # [n, T] int64
    seconds: float  # wall-clock, all instances together


class Heuristics(NamedTuple):
    """The heuristics of one problem."""

    names: Callable[[Any], list[str]]  # of those that can solve all instances of the problem's Original
    solve: Callable[[Any, str], Tensor]  # the problem's Original of n instances and a name -> actions [n, T]
    together: int  # at most so many instances a call
    needs_ortools: bool = False


HEURISTICS: Registry[Heuristics] = Registry("heuristic", "heuristics")


class Heuristic:
    """Every classical heuristic of a problem; an evaluation shows the best on average. No random numbers, no limits."""

    per_part = 128  # instances, after which an evaluation keeps what was found

    def check(self, problem: str) -> None:
        """Raises ValueError if the problem has no heuristic, or the package that has it is not installed."""
        if HEURISTICS.of(problem).needs_ortools:
            try:
                import_module("ortools.constraint_solver.pywrapcp")
            except ImportError:
                install = "pip install -c constraints.txt -e '.[solvers]'"
                raise ValueError(f"method=heuristic needs OR-Tools for problem {problem}: {install}") from None

    def solve(
        self, problem: str, instance_set: InstanceSet, progress: Callable[[int], None] = lambda done: None
    ) -> dict[str, Found]:
        """Solve the instances with each heuristic, in this process.

        Arguments:
            problem: its name
            instance_set: with the `originals` of that problem
            progress: called with the number of instances solved since the last call

        Raises ValueError as `check` does, and if OR-Tools finds no solution of an instance.
        """
        self.check(problem)
        heuristics = HEURISTICS[problem]
        names = heuristics.names(instance_set.originals)
        actions: dict[str, list[Tensor]] = {name: [] for name in names}
        seconds = dict.fromkeys(names, 0.0)
        for start in range(0, len(instance_set.names), heuristics.together):
            rows = slice(start, start + heuristics.together)
            originals = take(instance_set.originals, rows)
            for name in names:
                begin = time.perf_counter()
                try:
                    actions[name].append(heuristics.solve(originals, name))
                except ValueError as error:
                    raise ValueError(f"{instance_set.names[start]}: {error}") from None
                seconds[name] += time.perf_counter() - begin
            progress(len(instance_set.names[rows]))
        return {name: Found(torch.cat(actions[name]), seconds[name]) for name in names}
