"""The classical heuristics of the CVRP."""

from problems.heuristics.heuristic import HEURISTICS, Heuristics
from problems.heuristics.routing import CVRP, solve_cvrp

HEURISTICS["cvrp"] = Heuristics(lambda originals: list(CVRP), solve_cvrp, together=1, needs_ortools=True)
