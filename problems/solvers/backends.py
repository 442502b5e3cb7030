"""Which solver solves which problem: each problem registers its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

from problems.solvers.answer import Answer, Options


class Backend(NamedTuple):
    title: str
    package: str  # which has to be installed ...
    module: str  # ... and this part of it imported
    solve: Callable[[Any, Options], Answer]  # one instance: the fields of the problem's Original without their n
    patience: bool  # whether it can stop after iterations without improvement
    originals: Callable[[Any], Any]  # the problem's Original of generated instances, their numbers in float64

    def version(self) -> str:
        return version(self.package)


BACKENDS: dict[str, Backend] = {}  # by the name of the problem


def register(problem: str, backend: Backend) -> None:
    """Say which solver a problem has, by the problem's name; a module that defines a problem may call it."""
    BACKENDS[problem] = backend


def backend_of(problem: str) -> Backend:
    """The solver of a problem; the problems of this project register theirs in problems/<name>/solver.py.

    Raises ValueError if there is none or it is not installed.
    """
    if problem not in BACKENDS:
        with contextlib.suppress(ModuleNotFoundError):  # a problem of somebody else
            import_module(f"problems.{problem}.solver")
    if problem not in BACKENDS:
        raise ValueError(f"there is no solver for problem {problem}; see docs/add-a-problem.md")
    backend = BACKENDS[problem]
    try:
        import_module(backend.module)
    except ImportError:
        install = "pip install -c constraints.txt -e '.[solvers]' (PyVRP: Python 3.11 or later)"
        raise ValueError(f"problem {problem}'s solver needs {backend.title}: {install}") from None
    return backend
