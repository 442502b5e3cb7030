"""The capacitated vehicle routing problem: routes from a depot, none of which loads too much [GD, D.3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import moved, repeated, take
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Pieces, Problem
from problems.common.growth import check_growth, size_at
from problems.common.remaining import unmarked, without
from problems.common.view import check_view
from problems.cvrp import sets
from problems.cvrp.instances import Instance, as_walks, check_instance, check_routes, decode, encode, routes_of
from problems.cvrp.reports import CVRPReports
from problems.cvrp.sequences import cut, end_directly, farthest_first, in_order, loads_so_far, sweep
from problems.cvrp.uchoa import with_depots_and_demands
from problems.formats.tsplib import check_distances
from problems.routing.distributions import drawn, scattered, weights_of
from problems.routing.edges import undirected
from problems.routing.nearest import nearest_view
from problems.routing.plane import SYMMETRIES, into_unit_square, move_square, symmetric


class State(NamedTuple):
    origin: Tensor  # [R] int64 node the vehicle is at
    left: Tensor  # [R] int64 capacity left in it
    remaining: Tensor  # [R, n] int64 customers still to visit, ascending; n shrinks by one each step
    view: Tensor  # [R, k] int64 those of them in view, ascending: all, or the nearest to the origin


class CVRP(Problem):
    """An action is the next customer and whether it is reached directly or via the depot (A = 2N); T = N decisions.

    Actions 0..N-1 go directly to customer 1..N, actions N..2N-1 via the depot, where the vehicle is emptied. The last
    customer is reached directly if its load fits.

    Arguments:
        num_customers: N >= 2 of the random training instances; files of any size can be evaluated
        capacity: [lowest, highest] of the random training instances, at least 9 (their largest demand)
        far_first: imitate each expert's routes in the order of their farthest customers, the farthest first, and each
            from the end that is farther from the depot. Not in the paper, which starts with the fullest route and
            draws directions; the policy learns it with less data (docs/decisions.md).
        grow: [customers, share]: the first training instances have so many customers, later ones more, up to
            num_customers after that share of the training (None: num_customers from the start). Not in the paper.
        nearest: the policy sees so many remaining customers, the nearest to the current node, and can go to these alone
            (None or "all": all)
        distances: of instances in files: "rounded" to whole numbers or "exact" (None: as the file's type prescribes)
        validation_capacity: of the vehicles in the validation instances, at least 9 (None: drawn as for training)
        distribution: [[name, weight], ...] of the customers of random training instances,
            `problems.routing.distributions` has the names (None: uniform). Clustered ones have depots and demands by
            `problems.cvrp.uchoa`. Not in the paper.
    """

    name = "cvrp"
    reports = CVRPReports()
    dimensions = {"coords": 2, "distances": 2}

    def __init__(
        self,
        num_customers: int,
        capacity: list[int],
        far_first: bool = False,
        grow: list[float] | None = None,
        nearest: int | str | None = None,
        distances: str | None = None,
        validation_capacity: int | None = None,
        distribution: list | None = None,
    ):
        if num_customers < 2:
            raise ValueError(f"num_customers must be at least 2, got {num_customers}")
        if len(capacity) != 2 or not 9 <= capacity[0] <= capacity[1]:
            raise ValueError(f"capacity must be [lowest, highest] of at least 9, got {list(capacity)}")
        if validation_capacity is not None and validation_capacity < 9:
            raise ValueError(f"validation_capacity must be at least 9 or null, got {validation_capacity}")
        check_growth(grow, 2)
        self.num_customers = num_customers
        self.capacity = tuple(capacity)
        self.far_first = far_first
        self.grow = grow
        check_distances(distances)
        self.nearest = check_view("nearest", nearest)
        self.distances = distances
        self.validation_capacity = validation_capacity
        self.weights = weights_of(distribution)

    def curriculum(self, progress: float) -> CVRP:
        """The same problem with as many customers as after a share `progress` of the training."""
        stage = copy(self)
        stage.num_customers = size_at(self.grow, self.num_customers, progress)
        return stage

    def generate(self, n: int, generator: torch.Generator) -> Instance:
        """n instances: nodes as `distribution` says, demands uniform in 1..9, capacities uniform in their range."""
        rows = drawn(self.weights, n, generator)
        coords = scattered(rows, self.num_customers + 1, generator)
        demands = torch.randint(1, 10, (n, self.num_customers + 1), generator=generator)
        demands[:, 0] = 0
        lowest, highest = self.capacity
        instance = Instance(coords, demands, torch.randint(lowest, highest + 1, (n,), generator=generator))
        return with_depots_and_demands(instance, rows["clustered"], generator) if "clustered" in rows else instance

    def num_actions(self, instance: Instance) -> int:
        return 2 * self.horizon(instance)

    def horizon(self, instance: Instance) -> int:
        return instance.coords.shape[1] - 1

    def last_choice(self, instance: Instance) -> int:
        return max(0, self.horizon(instance) - 2)  # the last customer is reached directly if the load fits

    def reset(self, instance: Instance) -> State:
        rows, num_nodes, _ = instance.coords.shape
        origin = torch.zeros(rows, dtype=torch.int64, device=instance.coords.device)
        remaining = torch.arange(1, num_nodes, device=instance.coords.device).expand(rows, -1)
        return self._state(instance, origin, instance.capacity, remaining)

    def step(self, instance: Instance, state: State, action: Tensor) -> State:
        customer, via_depot = decode(action, instance.coords.shape[1] - 1)
        demand = instance.demands.gather(1, customer[:, None]).squeeze(1)
        left = torch.where(via_depot, instance.capacity, state.left) - demand
        return self._state(instance, customer, left, without(state.remaining, customer[:, None]))

    def replay(self, instance: Instance, actions: Tensor) -> State:
        """The state after `actions` [R, q] without walking through the q states before it."""
        rows, num_nodes, _ = instance.coords.shape
        if actions.shape[1] == 0:
            return self.reset(instance)
        customers, via_depot = decode(actions, num_nodes - 1)
        visited = torch.zeros(rows, num_nodes, dtype=torch.bool, device=actions.device)
        visited[:, 0] = True
        visited.scatter_(1, customers, True)
        route = via_depot.long().cumsum(dim=1)
        load = (instance.demands.gather(1, customers) * (route == route[:, -1:])).sum(dim=1)  # of the last route
        remaining = unmarked(visited, num_nodes - 1 - actions.shape[1])
        return self._state(instance, customers[:, -1], instance.capacity - load, remaining)

    def _state(self, instance: Instance, origin: Tensor, left: Tensor, remaining: Tensor) -> State:
        view = nearest_view(instance.coords, origin, remaining, self.nearest)
        return State(origin, left, remaining, view)

    def mask(self, instance: Instance, state: State) -> Tensor:
        rows, num_nodes, _ = instance.coords.shape
        fits = instance.demands.gather(1, state.view) <= state.left[:, None]
        direct = fits & (state.origin != 0)[:, None]
        # The depot follows the last customer: to go there via the depot, too, is never shorter.
        via_depot = torch.ones_like(direct) if state.remaining.shape[1] > 1 else ~direct
        legal = torch.zeros(rows, 2, num_nodes - 1, dtype=torch.bool, device=state.view.device)
        legal[:, 0].scatter_(1, state.view - 1, direct)
        legal[:, 1].scatter_(1, state.view - 1, via_depot)
        return legal.flatten(1)

    def sees(self, instance: Instance, state: State, action: Tensor) -> Tensor:
        customer, _ = decode(action, instance.coords.shape[1] - 1)
        return (state.view == customer[:, None]).any(dim=1)

    def cost(self, instance: Instance, actions: Tensor) -> Tensor:
        """Total length [R] of the routes that actions [R, N] stand for."""
        check_routes(instance, actions)
        walks = as_walks(actions, instance.coords.shape[1] - 1)  # [R, 2N+1]
        points = instance.coords.gather(1, walks[..., None].expand(-1, -1, 2))
        return (points[:, 1:] - points[:, :-1]).norm(dim=-1).sum(dim=1)

    def edges(self, instance: Instance, actions: Tensor) -> Tensor:
        """The edges of all routes, to and from the depot as well, without their directions."""
        nodes = instance.coords.shape[1]
        walks = as_walks(actions, nodes - 1)
        return undirected(walks[:, :-1], walks[:, 1:], nodes)

    def augment(
        self, instance: Instance, actions: Tensor, step: int, generator: torch.Generator
    ) -> tuple[Instance, Tensor]:
        """The same routes in randomly moved squares."""
        draw = moved(torch.rand(len(actions), 4, dtype=torch.float32, generator=generator), actions.device)
        return instance._replace(coords=move_square(instance.coords, draw)), actions

    def reorder(self, instance: Instance, actions: Tensor, step: int, generator: torch.Generator) -> Tensor:
        """The same routes in an order that can be learnt.

        The routes are sorted by the capacity left over at their end, the fullest first, each in a random direction
        (or as `far_first` says; in a view as a sweep around the depot meets them, so that the next one begins in view).
        Then they are rotated so that the decisions from `step` on end with a route, any route that is late enough: the
        examples are pieces of the sorted solution that end in the depot [GD, D.3].
        """
        rows, num_customers = actions.shape
        device = actions.device
        per_route = moved(torch.rand(rows, 3, num_customers, dtype=torch.float32, generator=generator), device)
        customers, _ = decode(actions, num_customers)
        route, loads = routes_of(instance, actions)

        if self.nearest is not None:
            rank, forwards = sweep(instance.coords, customers, route, per_route[:, :2, 0])
        elif self.far_first:
            rank, forwards = farthest_first(instance.coords, customers, route)
        else:
            rank = instance.capacity[:, None] - loads + 0.5 * per_route[:, 0].double()  # whole numbers; ties random
            forwards = per_route[:, 1] < 0.5
        customers, via_depot = in_order(customers, route, rank, forwards)
        place = torch.arange(num_customers, device=device).expand(rows, -1)
        ends = via_depot.roll(-1, dims=1) & (place >= num_customers - step - 1)  # the last place always is one
        end = per_route[:, 2].masked_fill(~ends, -1.0).argmax(dim=1, keepdim=True)
        turned = (place + end + 1) % num_customers
        customers, via_depot = customers.gather(1, turned), via_depot.gather(1, turned)
        demands = instance.demands.gather(1, customers)
        return encode(customers, end_directly(via_depot, demands, instance.capacity), num_customers)

    def num_equivalents(self, instance: Instance) -> int:
        """The symmetries of the square."""
        return SYMMETRIES

    def equivalents(self, instance: Instance, count: int) -> tuple[Instance, Callable[[Tensor], Tensor]]:
        """The symmetries of the square."""
        each = repeated(instance, count)
        which = torch.arange(count, device=each.coords.device).repeat(len(instance.coords))
        return each._replace(coords=symmetric(each.coords, which)), lambda actions: actions

    def pieces(self, instance: Instance, actions: Tensor, length: int, draw: Callable[[int], Tensor]) -> Pieces:
        """Pieces of the routes in a random order and in random directions, each of which ends in the depot."""
        num_customers = actions.shape[1]
        customers, _ = decode(actions, num_customers)
        route, _ = routes_of(instance, actions)
        rank, forwards = draw(num_customers), draw(num_customers) < 0.5
        customers, via_depot = in_order(customers, route, rank, forwards)
        sequence = encode(customers, via_depot, num_customers)

        row, first = cut(via_depot, length)
        inner = first[:, None] + torch.arange(length, device=first.device)  # [P, m]
        before = (first - 1).clamp(min=0)
        begun = first > 0  # else the piece begins in the depot
        here, demands = customers[row, before], instance.demands.gather(1, customers)
        origin = here.where(begun, 0)
        left = instance.capacity[row] - loads_so_far(demands, via_depot)[row, before] * begun
        remaining = customers[row[:, None], inner].sort(dim=1).values
        state = self._state(take(instance, row), origin, left, remaining)
        return Pieces(row, state, sequence, first, lambda sequence: sequence)

    def check(self, instance: Instance) -> None:
        """Raises ValueError unless all instances are well-formed."""
        check_instance(instance)

    def in_training_units(self, instance: Instance) -> Instance:
        """In the unit square, as evaluation sets are."""
        return instance._replace(coords=torch.from_numpy(into_unit_square(instance.coords.numpy())))

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """Evaluation sets: a named standard set, a `.npz`, a CVRPLIB file or a folder of them."""
        return sets.CVRPSets(self.distances).load(source, limit)

    def from_arrays(self, arrays: Mapping[str, Any], where: str) -> InstanceSet:
        """Instances in arrays by the names of those of an `.npz`."""
        return sets.CVRPSets().from_arrays(dict(arrays), where)

    def size_of(self, instance: Instance) -> dict[str, Tensor]:
        """The number of customers, and how many of them a vehicle can serve on average."""
        num_customers = float(self.horizon(instance))
        load = instance.demands[:, 1:].double().mean(dim=1)
        served = (instance.capacity / load).clamp(1.0, num_customers)  # a mean load of 0 gives infinity
        return {"customers": torch.full_like(served, num_customers), "customers a route": served}

    def validation(self, n: int, seed: int) -> list[InstanceSet]:
        """n random instances of this size, the same for all seeds, with references where they are shipped."""
        fixed = self.validation_capacity
        return [sets.validation(self.num_customers, self.capacity if fixed is None else (fixed, fixed), n)]
