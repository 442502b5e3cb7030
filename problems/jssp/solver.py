"""The established solver of the JSSP."""

from __future__ import annotations

from problems.jssp.instances import Instance
from problems.jssp.originals import Original, original_of
from problems.solvers.backends import BACKENDS, Backend
from problems.solvers.scheduling import solve_jssp


def originals(instances: Instance) -> Original:
    return Original(*(field.long() for field in original_of(instances)))  # drawn as whole numbers


CP_SAT = "ortools.sat.python.cp_model"
BACKENDS["jssp"] = Backend("OR-Tools", "ortools", CP_SAT, solve_jssp, patience=False, originals=originals)
