"""PyVRP for the TSP and the CVRP; one thread per instance."""

from __future__ import annotations

import math
import time
import warnings
from importlib.metadata import version

import numpy as np

from problems.cvrp import instances as cvrp_types
from problems.routing.distances import LARGEST, WholeDistances, whole_distances
from problems.solvers.answer import Answer, Options, SolverError
from problems.tsp import instances as tsp_types

MISLEADING = 1e-3  # relative error of a cost by which rounded distances may have misled the solver


def solve_tsp(original: tsp_types.Original, options: Options) -> Answer:
    """The tour of one vehicle without a capacity. `original` holds one instance: coords [N, 2], its metric."""
    start = time.perf_counter()
    distances = whole_distances(original.coords, original.metrics)
    routes, total = _solve(distances, options, demands=None, capacity=None, fleet=1)
    if len(routes) != 1:
        raise SolverError(f"PyVRP made {len(routes)} routes of a tour")
    return _answer(np.array(routes[0]), total, distances, len(original.coords), options, start)


def solve_cvrp(original: cvrp_types.Original, options: Options) -> Answer:
    """Routes of as many vehicles as customers. `original` holds one instance: coords [N+1, 2], demands [N+1], ..."""
    start = time.perf_counter()
    num_customers = len(original.coords) - 1
    unit = math.gcd(*original.demands.tolist()) or 1
    # Penalties of overload, of twice the longest distance for each unit, must fit in 64 bits.
    largest = min(LARGEST, (2**62 - 1) // max(1, int(original.demands.sum()) // unit))
    distances = whole_distances(original.coords, original.metrics, largest)
    demands, capacity = (original.demands // unit).tolist(), int(original.capacity) // unit
    routes, total = _solve(distances, options, demands, capacity, fleet=num_customers)
    actions = cvrp_types.of_routes(routes, num_customers)
    return _answer(actions.numpy(), total, distances, num_customers + len(routes), options, start)


def _solve(
    distances: WholeDistances, options: Options, demands: list[int] | None, capacity: int | None, fleet: int
) -> tuple[list[list[int]], int]:
    """The nodes of each route, without the depot 0, and their total distance.

    Raises SolverError if the best solution visits too few nodes or loads too much.
    """
    import pyvrp

    whole = distances.whole
    clients = [pyvrp.Client(node, [] if demands is None else [demands[node]]) for node in range(1, len(whole))]
    data = pyvrp.ProblemData(
        locations=[pyvrp.Location(0, 0) for _ in whole],  # only shown in plots
        clients=clients,
        depots=[pyvrp.Depot(0)],
        vehicle_types=[pyvrp.VehicleType(fleet, [] if capacity is None else [capacity])],
        distance_matrices=[whole],
        duration_matrices=[np.zeros_like(whole)],
    )
    # A unit of overload must be able to cost more than a route of its own, or nothing feasible is found; by default
    # it costs 100,000 at most, which suits distances of a few thousand.
    penalty = pyvrp.PenaltyParams(max_penalty=max(100_000.0, 2.0 * whole.max()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of penalties at their bound; whether the result is feasible is checked
        parameters = pyvrp.SolveParams(penalty=penalty)
        result = pyvrp.solve(data, _stop(options), options.seed, collect_stats=False, params=parameters)
    if not result.is_feasible():
        raise SolverError(f"PyVRP found no feasible solution within {options.time_limit:g} s; give it more time")
    # The clients are numbered from 0.
    routes = [[visit.idx + 1 for visit in route if visit.is_client()] for route in result.best.routes()]
    return routes, int(result.cost())


def _stop(options: Options):
    from pyvrp.stop import MaxRuntime, MultipleCriteria, NoImprovement

    criteria = [MaxRuntime(options.time_limit)]
    if options.patience is not None:
        criteria.append(NoImprovement(options.patience))
    return MultipleCriteria(criteria)


def _answer(
    actions: np.ndarray, total: int, distances: WholeDistances, num_edges: int, options: Options, start: float
) -> Answer:
    """`total` in the unit of the instance, give or take what rounding `num_edges` distances can have done."""
    cost, error = total / distances.scale, num_edges * distances.error
    if distances.excess:  # as often as there are forbidden arcs: all others together are shorter than one
        cost += total // int(distances.whole.max()) * distances.excess
    patience = "" if options.patience is None else f" or {options.patience} iterations without improvement"
    kind = f"PyVRP {version('pyvrp')}, {options.time_limit:g} s{patience}"
    if error > MISLEADING * cost:
        kind += f", distances only to within {distances.error:.2g}"
    if distances.error or distances.excess:
        error += 1e-9 * cost  # of sums in float64
    return Answer(actions, cost - error, cost + error, kind, time.perf_counter() - start)
