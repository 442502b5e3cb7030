"""The contract of a problem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gumbeldore.interfaces.instance_source import InstanceSource
from gumbeldore.interfaces.training_hooks import TrainingHooks
from gumbeldore.reports import Reports


def noting(init: Callable[..., None]) -> Callable[..., None]:
    """An `__init__` that notes the arguments of each new object, `made_with`: `save_policy` writes them."""

    @functools.wraps(init)
    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        self.__dict__.setdefault("made_with", (arguments, named))  # the subclass comes first, which calls its base
        init(self, *arguments, **named)

    return noted


class Problem(TrainingHooks, InstanceSource):
    """A combinatorial problem whose solutions are built by T successive decisions among A actions.

    The class of a problem inherits this class: `class TSP(Problem)`. `Dynamics` lists the required methods; all others
    have defaults. What some problems can do besides is in `gumbeldore.interfaces.abilities`. All methods are pure and
    batched over rows, without a Python loop over rows. `problem_contract` checks a problem.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = noting(cls.__init__)  # type: ignore[method-assign]

    reports: Reports = Reports()  # how evaluations show instances and solutions


def size_name(problem: Problem, instances: Any) -> str:
    """The size of instances as tables show it."""
    return problem.reports.size(instances, problem.horizon(instances))
