"""The classical heuristics of the JSSP: dispatching rules."""

from torch import Tensor

from problems.heuristics.heuristic import HEURISTICS, Heuristics
from problems.jssp.dispatching import dispatched, rules_for
from problems.jssp.originals import Original


def dispatch_job_shop(original: Original, name: str) -> Tensor:
    """The decisions [n, T] of a rule, a key of RULES or DUE_RULES."""
    return dispatched(original.to_schedule(), name)[0]


HEURISTICS["jssp"] = Heuristics(rules_for, dispatch_job_shop, together=1024)
