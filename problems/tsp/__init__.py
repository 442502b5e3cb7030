"""The travelling salesman problem."""

from problems.tsp.instances import Instance
from problems.tsp.problem import TSP, State

__all__ = ["TSP", "Instance", "State"]
