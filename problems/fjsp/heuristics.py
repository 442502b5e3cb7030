"""The classical heuristics of the FJSP: dispatching rules, each operation on the machine where it ends first."""

from torch import Tensor

from problems.fjsp.originals import Original
from problems.heuristics.heuristic import HEURISTICS, Heuristics
from problems.jssp.dispatching import dispatched, rules_for


def dispatch_flexible(original: Original, name: str) -> Tensor:
    """The decisions [n, T] of a rule, a key of RULES or DUE_RULES. Remaining work is that on the fastest machines."""
    jobs, machines = dispatched(original.to_schedule(), name)
    return jobs * original.times.shape[3] + machines


HEURISTICS["fjsp"] = Heuristics(rules_for, dispatch_flexible, together=256)
