"""OR-Tools' first-solution strategies for the TSP and the CVRP: each makes one solution, which nothing improves."""

from __future__ import annotations

import torch
from torch import Tensor

from problems.cvrp import instances as cvrp_types
from problems.formats.tsplib import Metric
from problems.routing.distances import is_symmetric, whole_distances
from problems.tsp import instances as tsp_types

# Names in OR-Tools. "savings" is Clarke and Wright's [1964], but turns no route round to join it with another;
# SAVINGS of OR-Tools finishes one route before it begins the next. "insertion" takes the customers in a fixed order
# (TSP) or always the one that is cheapest to insert (CVRP).
TSP_STRATEGIES = {
    "savings": "PARALLEL_SAVINGS",
    "insertion": "LOCAL_CHEAPEST_INSERTION",
    "Christofides": "CHRISTOFIDES",
}
CVRP_STRATEGIES = {
    "savings": "PARALLEL_SAVINGS",
    "insertion": "PARALLEL_CHEAPEST_INSERTION",
}


def for_tsp(originals: tsp_types.Original) -> list[str]:
    """The strategies for all of the instances: Christofides' needs symmetric distances."""
    if all(map(is_symmetric, originals.metrics)):
        return list(TSP_STRATEGIES)
    return [name for name in TSP_STRATEGIES if name != "Christofides"]


def for_cvrp(originals: cvrp_types.Original) -> list[str]:
    """The strategies: all of them, for any distances."""
    return list(CVRP_STRATEGIES)


def solve_tsp(original: tsp_types.Original, name: str) -> Tensor:
    """Actions [1, N-1] for one instance by the strategy of that name."""
    (tour,) = _first_solution(original.coords[0], original.metrics[0], TSP_STRATEGIES[name], fleet=1)
    return torch.tensor([tour])


def solve_cvrp(original: cvrp_types.Original, name: str) -> Tensor:
    """Actions [1, N] for one instance by the strategy of that name, with as many vehicles as customers."""
    num_customers = original.coords.shape[1] - 1
    loads = original.demands[0].tolist(), int(original.capacity[0])
    routes = _first_solution(original.coords[0], original.metrics[0], CVRP_STRATEGIES[name], num_customers, *loads)
    return cvrp_types.of_routes(routes, num_customers)[None]


def _first_solution(
    coords: Tensor, metric: Metric, strategy: str, fleet: int, demands: list[int] | None = None, capacity: int = 0
) -> list[list[int]]:
    """The nodes of each route, without the depot 0. Raises ValueError if OR-Tools finds none."""
    from ortools.constraint_solver import pywrapcp, routing_enums_pb2

    distances = whole_distances(coords, metric).whole
    manager = pywrapcp.RoutingIndexManager(len(distances), fleet, 0)
    model = pywrapcp.RoutingModel(manager)
    model.SetArcCostEvaluatorOfAllVehicles(model.RegisterTransitMatrix(distances.tolist()))
    if demands is not None:
        load = model.RegisterUnaryTransitVector(demands)
        model.AddDimensionWithVehicleCapacity(load, 0, [capacity] * fleet, True, "load")
    parameters = pywrapcp.DefaultRoutingSearchParameters()
    parameters.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.Value.Value(strategy)
    parameters.solution_limit = 1  # the first: local search would begin after it
    found = model.SolveWithParameters(parameters)
    if found is None:
        raise ValueError(f"OR-Tools found no solution by {strategy}")
    routes = [_route(model, manager, found, vehicle) for vehicle in range(fleet)]
    return [route for route in routes if route]


def _route(model, manager, found, vehicle: int) -> list[int]:
    """The nodes that a vehicle visits, in order."""
    nodes = []
    index = found.Value(model.NextVar(model.Start(vehicle)))
    while not model.IsEnd(index):
        nodes.append(manager.IndexToNode(index))
        index = found.Value(model.NextVar(index))
    return nodes
