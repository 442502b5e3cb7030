"""Gomoku against a deterministic opponent [GD, appendix C.4]."""

from problems.gomoku.game import Instance, State
from problems.gomoku.problem import Gomoku

__all__ = ["Gomoku", "Instance", "State"]
