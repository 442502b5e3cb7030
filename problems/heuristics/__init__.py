"""Classical heuristics, the baseline beside a policy; routing problems need OR-Tools of the extra `solvers`."""

from problems.heuristics.heuristic import Heuristic

__all__ = ["Heuristic"]
