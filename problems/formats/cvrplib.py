"""CVRPLIB files: instances (`.vrp`) and solutions (`.sol`) of the capacitated vehicle routing problem."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from problems.formats.matrices import EXPLICIT
from problems.formats.sections import Content, Header, Sections, name_of, node_id, node_lines, read_content
from problems.formats.text import error, lines, number, short
from problems.formats.tsplib import Metric, cost_text, node_sections, read_nodes

METRICS = ("EUC_2D", "CEIL_2D", "EXACT_2D")  # keys of problems.formats.tsplib.METRICS
LARGEST_DEMAND = 2**31  # of a customer and of a vehicle: all sums of them stay exact in int64

_REQUIRED = {
    "TYPE": ["CVRP", "ACVRP"],
    "EDGE_WEIGHT_TYPE": [*METRICS, EXPLICIT],
    "DIMENSION": [],
    "CAPACITY": [],
}
_REMARKS = ("NAME", "COMMENT", "EDGE_WEIGHT_FORMAT", "NODE_COORD_TYPE", "DISPLAY_DATA_TYPE")
_LIMITS = ("VEHICLES", "DISTANCE", "SERVICE_TIME")  # any other keyword may be a limit too, so it is refused
_ROUTE = re.compile(r"route\s*#\s*(\d+)\s*:(.*)", re.IGNORECASE)
_COST = re.compile(r"cost\b\s*:?(.*)", re.IGNORECASE)


class CvrplibInstance(NamedTuple):
    name: str
    coords: np.ndarray  # [N+1, 2] float64, or a map: the depot, then the other nodes in the order of their numbers
    demands: np.ndarray  # [N+1] int64, 0 at the depot
    capacity: int
    metric: Metric  # its EDGE_WEIGHT_TYPE, unless other distances were asked for, or its matrix in that order


def read_cvrplib(path: str | Path, distances: str | None = None) -> CvrplibInstance:
    """The instance in a file of TYPE CVRP or ACVRP with one depot, which may be any of its nodes.

    Arguments:
        distances: see `problems.formats.tsplib.metric_of`

    Raises ValueError with file, line and rule for everything else, malformed files included.
    """
    path = Path(path)
    content = read_content(path, _sections, _REQUIRED, [*_REMARKS, *_LIMITS])
    header = content.header
    coords, metric = read_nodes(path, content, distances)
    if len(coords) < 2:
        rule = f"there must be a depot and at least one customer, DIMENSION is {len(coords)}"
        raise error(path, header["DIMENSION"][0], rule)
    _check_limits(path, header, len(coords) - 1)
    capacity = _load(path, *header["CAPACITY"], "CAPACITY")
    if capacity < 1:
        raise error(path, header["CAPACITY"][0], f"CAPACITY must be at least 1, got {capacity}")
    depot = _depot(path, content, len(coords))
    demands = _demands(path, content, capacity, depot)
    order = [depot, *(node for node in range(len(coords)) if node != depot)]
    if isinstance(metric, Tensor):
        metric = metric[order][:, order]
    return CvrplibInstance(name_of(path, header, ".vrp"), coords[order], demands[order], capacity, metric)


def read_solution(path: str | Path, num_customers: int) -> tuple[list[list[int]], float | None]:
    """The routes in a `.sol` file, lists of customers 1..N that visit each once, and its cost (None: not given).

    Raises ValueError with file, line and rule for everything else.
    """
    path = Path(path)
    routes: list[list[int]] = []
    visited: set[int] = set()
    cost = None
    for line, text in lines(path):
        if cost is not None:
            raise error(path, line, f"nothing may follow the cost, got {short(text)}")
        if route := _ROUTE.fullmatch(text):
            if route[1] != str(len(routes) + 1):
                raise error(path, line, f"route {len(routes) + 1} is to follow, got route {short(route[1])}")
            routes.append([_customer(path, line, word, num_customers, visited) for word in route[2].split()])
            if not routes[-1]:
                raise error(path, line, f"route {len(routes)} has no customers")
        elif found := _COST.fullmatch(text):
            cost = number(path, line, found[1].strip(), float, "the cost")
            if not (math.isfinite(cost) and cost >= 0):
                raise error(path, line, f"the cost must be finite and not negative, got {short(found[1].strip())}")
        else:
            raise error(path, line, f"a line is `Route #k: customers` or `Cost c`, got {short(text)}")
    if len(visited) != num_customers:
        missing = min(set(range(1, num_customers + 1)) - visited)
        rule = f"the routes visit {len(visited)} of {num_customers} customers, {missing} is the first without a visit"
        raise error(path, None, rule)
    return routes, cost


def solution_text(routes: list[list[int]], cost: float) -> str:
    """A `.sol` file with routes of customers 1..N and their cost; `read_solution` reads it back."""
    lines = [f"Route #{place}: {' '.join(map(str, route))}\n" for place, route in enumerate(routes, start=1)]
    return "".join(lines) + f"Cost {cost_text(cost)}\n"


def _sections(header: Header) -> Sections:
    nodes = node_sections(header)
    return Sections([*nodes.needed, "DEMAND_SECTION", "DEPOT_SECTION"], nodes.others)


def _check_limits(path: Path, header: Header, num_customers: int) -> None:
    """Refuses limits of a CVRP with more rules than that of the capacity."""
    if "DISTANCE" in header:
        raise error(path, header["DISTANCE"][0], "DISTANCE, a limit of the length of a route, is not supported")
    if "SERVICE_TIME" in header:
        line, word = header["SERVICE_TIME"]
        if number(path, line, word, float, "SERVICE_TIME") != 0:
            raise error(path, line, f"SERVICE_TIME must be 0, service times are not supported, got {short(word)}")
    if "VEHICLES" in header:
        line, word = header["VEHICLES"]
        if number(path, line, word, int, "VEHICLES") < num_customers:
            rule = f"VEHICLES, a limit of the number of routes below that of the customers, got {short(word)}"
            raise error(path, line, f"{rule}: not supported; remove the line to allow any number")


def _demands(path: Path, content: Content, capacity: int, depot: int) -> np.ndarray:
    """The demands [N+1] int64 in DEMAND_SECTION."""
    nodes = node_lines(path, content, "DEMAND_SECTION", "id demand")
    demands = np.zeros(len(nodes), dtype=np.int64)
    for line, node, (word,) in nodes:
        demand = _load(path, line, word, "a demand")
        if node == depot and demand != 0:
            raise error(path, line, f"the depot must have the demand 0, got {demand}")
        if not 0 <= demand <= capacity:
            raise error(path, line, f"demands must lie between 0 and the capacity {capacity}, got {demand}")
        demands[node] = demand
    return demands


def _load(path: Path, line: int, word: str, what: str) -> int:
    value = number(path, line, word, int, what)
    if abs(value) > LARGEST_DEMAND:
        raise error(path, line, f"{what} must be at most {LARGEST_DEMAND}, got {short(word)}")
    return value


def _depot(path: Path, content: Content, num_nodes: int) -> int:
    """The one depot, counted from 0. Without the end mark -1, EOF must say that the list of depots is complete."""
    words = [(line, word) for line, text in content.rows["DEPOT_SECTION"] for word in text.split()]
    last = words[-1] if words else (None, "")
    if last[1] != "-1" and not content.ended:
        raise error(path, last[0], "DEPOT_SECTION must end with -1, or the file with EOF")
    depots = words[:-1] if last[1] == "-1" else words
    if len(depots) != 1:
        raise error(path, last[0], f"DEPOT_SECTION must have exactly one depot, got {len(depots)}")
    return node_id(path, *depots[0], num_nodes)


def _customer(path: Path, line: int, word: str, num_customers: int, visited: set[int]) -> int:
    """The customer of a route, added to those visited."""
    customer = number(path, line, word, int, "a customer")
    if not 1 <= customer <= num_customers:
        raise error(path, line, f"customers are 1..{num_customers}, got {short(word)}")
    if customer in visited:
        raise error(path, line, f"customer {customer} is visited twice")
    visited.add(customer)
    return customer
