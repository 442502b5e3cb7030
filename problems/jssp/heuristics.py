"""The classical heuristics of the JSSP."""

from problems.heuristics.dispatching import RULES, dispatch_job_shop
from problems.heuristics.heuristic import HEURISTICS, Heuristics

HEURISTICS["jssp"] = Heuristics(lambda originals: list(RULES), dispatch_job_shop, together=1024)
