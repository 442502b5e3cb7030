"""The flexible job shop scheduling problem."""

from problems.fjsp.instances import Instance
from problems.fjsp.problem import FJSP

__all__ = ["FJSP", "Instance"]
