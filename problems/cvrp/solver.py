"""The established solver of the CVRP."""

from __future__ import annotations

from problems.cvrp.instances import Instance, Original
from problems.formats.tsplib import UNROUNDED
from problems.solvers.backends import BACKENDS, Backend
from problems.solvers.routing import solve_cvrp


def originals(instances: Instance) -> Original:
    metrics = [UNROUNDED] * len(instances.coords)
    return Original(instances.coords, instances.demands, instances.capacity, metrics)


BACKENDS["cvrp"] = Backend("PyVRP", "pyvrp", "pyvrp", solve_cvrp, patience=True, originals=originals)
