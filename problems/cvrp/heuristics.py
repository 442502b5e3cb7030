"""The classical heuristics of the CVRP."""

from problems.heuristics.heuristic import Heuristics, register
from problems.heuristics.routing import CVRP, solve_cvrp

register("cvrp", Heuristics(lambda originals: list(CVRP), solve_cvrp, together=1, needs_ortools=True))
