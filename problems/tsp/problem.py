"""The travelling salesman problem: visit every node once, starting and ending at node 0 [GD, appendix D.2]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import moved, take
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Pieces, Problem
from problems.common.growth import check_growth, size_at
from problems.common.remaining import unmarked, without
from problems.common.view import ViewBySize, check_view
from problems.formats.tsplib import check_distances
from problems.routing.distributions import drawn, scattered, weights_of
from problems.routing.edges import undirected
from problems.routing.nearest import nearest_view
from problems.routing.plane import SYMMETRIES, into_unit_square, move_square, symmetric
from problems.tsp import sets
from problems.tsp.instances import Instance, as_actions, as_tours, check_tours, rotated, swapped
from problems.tsp.reports import TSPReports

LARGE = 500  # nodes: of so large instances, evaluations show LARGE_VIEW where nothing else is said (docs/decisions.md)
LARGE_VIEW = 100


class State(NamedTuple):
    origin: Tensor  # [R] int64 node the partial tour has reached
    destination: Tensor  # [R] int64 node the tour must end in
    remaining: Tensor  # [R, n] int64 nodes still to visit, ascending; n shrinks by one each step
    view: Tensor  # [R, k] int64 those of them in view, ascending: all, or the nearest to the origin


class TSP(Problem):
    """An action is the next node (A = N, node 0 never is one); T = N - 1 decisions.

    Arguments:
        num_nodes: N >= 3 of the random training instances; files of any size can be evaluated
        grow: [nodes, share]: the first training instances have so many nodes, later ones more, up to num_nodes after
            that share of the training (None: num_nodes from the start). Not in the paper.
        nearest: the policy sees so many remaining nodes, the nearest to the current one, and can go to these alone
            ("all": all; None: all, but in evaluations of larger instances than those of the training, from 500 nodes
            on, 100). Not in the paper.
        distances: of instances in files: "rounded" to whole numbers or "exact" (None: as the file's type prescribes)
        distribution: [[name, weight], ...] of the nodes of random training instances,
            `problems.routing.distributions` has the names (None: uniform). Not in the paper.
    """

    name = "tsp"
    reports = TSPReports()
    dimensions = {"coords": 2, "distances": 2}

    def __init__(
        self,
        num_nodes: int,
        grow: list[float] | None = None,
        nearest: int | str | None = None,
        distances: str | None = None,
        distribution: list | None = None,
    ):
        if num_nodes < 3:
            raise ValueError(f"num_nodes must be at least 3, got {num_nodes}")
        check_growth(grow, 3)
        check_distances(distances)
        self.num_nodes = num_nodes
        self.grow = grow
        self.nearest = ViewBySize(check_view("nearest", nearest), LARGE_VIEW, is_said=nearest is not None)
        self.distances = distances
        self.weights = weights_of(distribution)

    def curriculum(self, progress: float) -> TSP:
        """The same problem with as many nodes as after a share `progress` of the training."""
        stage = copy(self)
        stage.num_nodes = size_at(self.grow, self.num_nodes, progress)
        return stage

    def generate(self, n: int, generator: torch.Generator) -> Instance:
        """n instances with nodes as `distribution` says."""
        return Instance(scattered(drawn(self.weights, n, generator), self.num_nodes, generator))

    def num_actions(self, instance: Instance) -> int:
        return instance.coords.shape[1]

    def horizon(self, instance: Instance) -> int:
        return instance.coords.shape[1] - 1

    def last_choice(self, instance: Instance) -> int:
        return max(0, self.horizon(instance) - 2)  # with one node left the move is forced

    def reset(self, instance: Instance) -> State:
        rows, num_nodes, _ = instance.coords.shape
        device = instance.coords.device
        start = torch.zeros(rows, dtype=torch.int64, device=device)
        remaining = torch.arange(1, num_nodes, device=device).expand(rows, -1)
        return self._state(instance, start, start, remaining)

    def step(self, instance: Instance, state: State, action: Tensor) -> State:
        return self._state(instance, action, state.destination, without(state.remaining, action[:, None]))

    def replay(self, instance: Instance, actions: Tensor) -> State:
        """The state after `actions` [R, q] without walking through the q states before it."""
        rows, num_nodes, _ = instance.coords.shape
        visited = torch.zeros(rows, num_nodes, dtype=torch.bool, device=actions.device)
        visited[:, 0] = True
        visited.scatter_(1, actions, True)
        start = torch.zeros(rows, dtype=torch.int64, device=actions.device)
        origin = actions[:, -1] if actions.shape[1] else start
        return self._state(instance, origin, start, unmarked(visited, num_nodes - 1 - actions.shape[1]))

    def _state(self, instance: Instance, origin: Tensor, destination: Tensor, remaining: Tensor) -> State:
        view = nearest_view(instance.coords, origin, remaining, self.nearest.of(instance.coords.shape[1]))
        return State(origin, destination, remaining, view)

    def for_evaluation(self) -> TSP:
        """Of instances that are large, and larger than those of the training, a part is in view if nothing is said."""
        evaluated = copy(self)
        evaluated.nearest = self.nearest.from_size(max(LARGE, self.num_nodes + 1))
        return evaluated

    def view_of(self, instance: Instance) -> str:
        nodes = instance.coords.shape[1]
        if not self.nearest.is_reduced(nodes):
            return ""
        seen = f"the {LARGE_VIEW} nearest to the current one (problem.nearest=all: all)"
        return f"of {nodes:,} nodes, the policy sees {seen}"

    def mask(self, instance: Instance, state: State) -> Tensor:
        rows, num_nodes, _ = instance.coords.shape
        legal = torch.zeros(rows, num_nodes, dtype=torch.bool, device=state.view.device)
        return legal.scatter_(1, state.view, True)

    def sees(self, instance: Instance, state: State, action: Tensor) -> Tensor:
        return (state.view == action[:, None]).any(dim=1)

    def cost(self, instance: Instance, actions: Tensor) -> Tensor:
        """Length [R] of the closed tours 0, actions [R, N-1], back to 0."""
        check_tours(actions, instance.coords.shape[1])
        tours = as_tours(actions)  # [R, N]
        points = instance.coords.gather(1, tours[..., None].expand(-1, -1, 2))
        return (points - points.roll(-1, dims=1)).norm(dim=-1).sum(dim=-1)

    def edges(self, instance: Instance, actions: Tensor) -> Tensor:
        """The N edges of each tour, without their directions."""
        tours = as_tours(actions)
        return undirected(tours, tours.roll(-1, dims=1), instance.coords.shape[1])

    def augment(
        self, instance: Instance, actions: Tensor, step: int, generator: torch.Generator
    ) -> tuple[Instance, Tensor]:
        """The same tours from a random start node, in a random direction, in randomly moved squares.

        The geometry is swapped in x/y, mirrored at each mid-line and rotated about the centre by a uniform
        angle, then scaled down where it left the unit square [GD, appendix D.2]. A new start node takes the
        label 0, so a piece of the tour that ends in node 0 can be any piece of it.
        """
        tours = as_tours(actions)
        rows, num_nodes = tours.shape
        # one column per decision below
        draw = moved(torch.rand(rows, 6, dtype=torch.float32, generator=generator), tours.device)

        tours = rotated(tours, (draw[:, 0] * num_nodes).long())
        backwards = draw[:, 1, None] < 0.5
        tours = torch.where(backwards, tours.flip(1).roll(1, dims=1), tours)  # the start stays first

        start = tours[:, 0]
        tours = swapped(tours, start)
        coords = _points(instance.coords, start)
        return Instance(move_square(coords, draw[:, 2:])), tours[:, 1:]

    def num_equivalents(self, instance: Instance) -> int:
        """The symmetries of the square, from each start node."""
        return SYMMETRIES * instance.coords.shape[1]

    def equivalents(self, instance: Instance, count: int) -> tuple[Instance, Callable[[Tensor], Tensor]]:
        """The symmetries of the square, and where count is above 8, these from other start nodes, evenly spread.

        Reversed tours are no further equivalents: an instance has no direction, the tour begins and ends in node 0.
        """
        rows, num_nodes, _ = instance.coords.shape
        which = torch.arange(count, device=instance.coords.device).repeat(rows)
        starts = which // SYMMETRIES * num_nodes // -(-count // SYMMETRIES)
        coords = _points(instance.coords.repeat_interleave(count, dim=0), starts)

        def restored(actions: Tensor) -> Tensor:
            tours = swapped(as_tours(actions.flatten(0, 1)), starts.repeat_interleave(actions.shape[1]))
            return as_actions(tours).view_as(actions)

        return Instance(symmetric(coords, which % SYMMETRIES)), restored

    def pieces(self, instance: Instance, actions: Tensor, length: int, draw: Callable[[int], Tensor]) -> Pieces:
        """Paths between two nodes that stay, of tours from a random start and in a random direction."""
        tours = as_tours(actions)
        rows, num_nodes = tours.shape
        uniform = draw(2)
        tours = rotated(tours, (uniform[:, 0] * num_nodes).long())
        tours = torch.where(uniform[:, 1, None] < 0.5, tours.flip(1), tours)

        origin = torch.arange(max(1, num_nodes // (length + 1)), device=tours.device) * (length + 1)  # their places
        inner = tours[:, origin[:, None] + torch.arange(1, length + 1, device=tours.device)].flatten(0, 1)  # [P, m]
        destination = tours[:, (origin + length + 1) % num_nodes].flatten()
        row = torch.arange(rows, device=tours.device).repeat_interleave(len(origin))
        remaining = inner.sort(dim=1).values
        state = self._state(take(instance, row), tours[:, origin].flatten(), destination, remaining)
        return Pieces(row, state, tours, (origin + 1).repeat(rows), as_actions)

    def check(self, instance: Instance) -> None:
        """Raises ValueError unless coordinates are numbers [n, N, 2]."""
        if instance.coords.shape[2] != 2 or not instance.coords.isfinite().all():
            raise ValueError("coordinates must be finite numbers [n, N, 2]")

    def in_training_units(self, instance: Instance) -> Instance:
        """In the unit square, as evaluation sets are."""
        return instance._replace(coords=torch.from_numpy(into_unit_square(instance.coords.numpy())))

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """Evaluation sets: a named standard set, a `.npz`, a TSPLIB file or a folder of them."""
        return sets.TSPSets(self.distances).load(source, limit)

    def from_arrays(self, arrays: Mapping[str, Any], where: str) -> InstanceSet:
        """Instances in arrays by the names of those of an `.npz`."""
        return sets.TSPSets().from_arrays(dict(arrays), where)

    def size_of(self, instance: Instance) -> dict[str, Tensor]:
        """The number of nodes."""
        rows, num_nodes, _ = instance.coords.shape
        return {"nodes": torch.full((rows,), float(num_nodes))}

    def validation(self, n: int, seed: int) -> list[InstanceSet]:
        """The first n instances of Kool's validation recipe (seed 4321) for this size, the same for all seeds."""
        return [sets.kool_tsp_validation(self.num_nodes, n)]


def _points(coords: Tensor, start: Tensor) -> Tensor:
    """The coordinates [R, N, 2] of nodes of which 0 and `start` [R] have changed places."""
    nodes = torch.arange(coords.shape[1], device=coords.device).expand(len(coords), -1)
    return coords.gather(1, swapped(nodes, start)[..., None].expand(-1, -1, 2))
