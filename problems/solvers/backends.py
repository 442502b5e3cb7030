"""Which solver solves which problem: each problem registers its own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

from problems.common.registry import Registry
from problems.solvers.answer import Answer, Options


class Backend(NamedTuple):
    title: str
    package: str  # which has to be installed ...
    module: str  # ... and this part of it imported
    solve: Callable[[Any, Options], Answer]  # one instance: the fields of the problem's Original without their n
    patience: bool  # whether it can stop after iterations without improvement
    originals: Callable[[Any], Any]  # the problem's Original of generated instances, their numbers in float64
    exact: bool = False  # whether it bounds the costs of all solutions, and works with several threads

    def version(self) -> str:
        return version(self.package)


BACKENDS: Registry[Backend] = Registry("solver", "solver")


def backend_of(problem: str) -> Backend:
    """The solver of a problem; raises ValueError if there is none or it is not installed."""
    backend = BACKENDS.of(problem)
    try:
        import_module(backend.module)
    except ImportError:
        install = "pip install -c constraints.txt -e '.[solvers]' (PyVRP: Python 3.11 or later)"
        raise ValueError(f"problem {problem}'s solver needs {backend.title}: {install}") from None
    return backend
