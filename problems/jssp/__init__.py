"""The job shop scheduling problem."""

from problems.jssp.instances import Instance
from problems.jssp.problem import JSSP, State

__all__ = ["JSSP", "Instance", "State"]
