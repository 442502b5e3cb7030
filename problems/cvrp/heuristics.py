"""The classical heuristics of the CVRP."""

from problems.heuristics.heuristic import HEURISTICS, Heuristics
from problems.heuristics.routing import for_cvrp, solve_cvrp

HEURISTICS["cvrp"] = Heuristics(for_cvrp, solve_cvrp, together=1, needs_ortools=True)
