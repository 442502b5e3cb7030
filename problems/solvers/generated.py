"""Random training instances as an instance set, in the units that solvers take."""

from __future__ import annotations

from typing import Any

import torch

from gumbeldore.batches import batch_size
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem, without_references
from problems.cvrp import instances as cvrp_types
from problems.jssp import instances as jssp_types
from problems.routing.distances import UNROUNDED
from problems.tsp import instances as tsp_types


def as_instance_set(problem: Problem, instances: Any) -> InstanceSet:
    """Instances that `problem` has generated, without references; the true cost is the problem's own in float64."""
    fields = (field.double() if field.is_floating_point() else field for field in instances)
    precise = type(instances)(*fields)
    unsolved = without_references(problem, precise, problem.name)
    return unsolved._replace(instances=instances, originals=originals_of(problem.name, precise))


def originals_of(problem: str, instances: Any) -> Any:
    """The problem's Original of generated instances with coordinates or times in float64."""
    metrics = [UNROUNDED] * batch_size(instances)
    if problem == "tsp":
        return tsp_types.Original(instances.coords, metrics)
    if problem == "cvrp":
        return cvrp_types.Original(instances.coords, instances.demands, instances.capacity, metrics)
    first = torch.zeros(batch_size(instances), dtype=torch.int64)
    return jssp_types.Original(instances.times.long(), instances.machines, first)  # drawn as whole numbers
