"""The classical heuristics of the JSSP."""

from problems.heuristics.dispatching import RULES, dispatch
from problems.heuristics.heuristic import Heuristics, register

register("jssp", Heuristics(lambda originals: list(RULES), dispatch, together=1024))
