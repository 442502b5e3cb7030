"""The classical heuristics of the JSSP."""

from problems.heuristics.dispatching import dispatch_job_shop, rules_for
from problems.heuristics.heuristic import HEURISTICS, Heuristics

HEURISTICS["jssp"] = Heuristics(rules_for, dispatch_job_shop, together=1024)
