"""The classical heuristics of the TSP."""

from problems.heuristics.heuristic import Heuristics, register
from problems.heuristics.routing import for_tsp, solve_tsp

register("tsp", Heuristics(for_tsp, solve_tsp, together=1, needs_ortools=True))
