"""Which solver solves which problem."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

from problems.solvers.answer import Answer, Options
from problems.solvers.routing import solve_cvrp, solve_tsp
from problems.solvers.scheduling import solve_jssp


class Backend(NamedTuple):
    title: str
    package: str  # which has to be installed ...
    module: str  # ... and this part of it imported
    solve: Callable[[Any, Options], Answer]  # one instance: the fields of the problem's Original without their n
    patience: bool  # whether it can stop after iterations without improvement

    def version(self) -> str:
        return version(self.package)


BACKENDS = {
    "tsp": Backend("PyVRP", "pyvrp", "pyvrp", solve_tsp, patience=True),
    "cvrp": Backend("PyVRP", "pyvrp", "pyvrp", solve_cvrp, patience=True),
    "jssp": Backend("OR-Tools", "ortools", "ortools.sat.python.cp_model", solve_jssp, patience=False),
}


def backend_of(problem: str) -> Backend:
    """The solver of a problem. Raises ValueError if there is none or it is not installed."""
    if problem not in BACKENDS:
        raise ValueError(f"there is no solver for problem {problem}; there are some for {', '.join(BACKENDS)}")
    backend = BACKENDS[problem]
    try:
        import_module(backend.module)
    except ImportError:
        install = "pip install -c constraints.txt -e '.[solvers]' (PyVRP: Python 3.11 or later)"
        raise ValueError(f"problem {problem}'s solver needs {backend.title}: {install}") from None
    return backend
