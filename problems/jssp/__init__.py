"""The job shop scheduling problem."""

from problems.jssp.instances import Instance
from problems.jssp.problem import JSSP
from problems.jssp.state import State

__all__ = ["JSSP", "Instance", "State"]
