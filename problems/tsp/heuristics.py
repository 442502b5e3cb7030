"""The classical heuristics of the TSP."""

from problems.heuristics.heuristic import HEURISTICS, Heuristics
from problems.heuristics.routing import for_tsp, solve_tsp

HEURISTICS["tsp"] = Heuristics(for_tsp, solve_tsp, together=1, needs_ortools=True)
