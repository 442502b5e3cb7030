"""The established solver of the TSP."""

from __future__ import annotations

from problems.formats.tsplib import UNROUNDED
from problems.solvers.backends import BACKENDS, Backend
from problems.solvers.routing import solve_tsp
from problems.tsp.instances import Instance, Original


def originals(instances: Instance) -> Original:
    return Original(instances.coords, [UNROUNDED] * len(instances.coords))


BACKENDS["tsp"] = Backend("PyVRP", "pyvrp", "pyvrp", solve_tsp, patience=True, originals=originals)
