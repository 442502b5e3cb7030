"""The established solver of the JSSP."""

from __future__ import annotations

import torch

from problems.jssp.instances import Instance, Original
from problems.solvers.backends import BACKENDS, Backend
from problems.solvers.scheduling import solve_jssp


def originals(instances: Instance) -> Original:
    first = torch.zeros(len(instances.times), dtype=torch.int64)
    return Original(instances.times.long(), instances.machines, first)  # drawn as whole numbers


CP_SAT = "ortools.sat.python.cp_model"
BACKENDS["jssp"] = Backend("OR-Tools", "ortools", CP_SAT, solve_jssp, patience=False, originals=originals)
