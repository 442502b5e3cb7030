"""The classical heuristics of the JSSP."""

from problems.heuristics.dispatching import RULES, dispatch
from problems.heuristics.heuristic import HEURISTICS, Heuristics

HEURISTICS["jssp"] = Heuristics(lambda originals: list(RULES), dispatch, together=1024)
