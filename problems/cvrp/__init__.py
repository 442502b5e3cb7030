"""The capacitated vehicle routing problem."""

from problems.cvrp.instances import Instance
from problems.cvrp.problem import CVRP, State

__all__ = ["CVRP", "Instance", "State"]
