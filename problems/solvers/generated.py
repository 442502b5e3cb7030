"""Random training instances as an instance set, in the units that solvers take."""

from __future__ import annotations

from typing import Any

from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem, without_references
from problems.solvers.backends import backend_of


def as_instance_set(problem: Problem, instances: Any) -> InstanceSet:
    """Instances that `problem` has generated, without references; the true cost is the problem's own in float64."""
    fields = (field.double() if field.is_floating_point() else field for field in instances)
    precise = type(instances)(*fields)
    unsolved = without_references(problem, precise, problem.name)
    return unsolved._replace(instances=instances, originals=backend_of(problem.name).originals(precise))
