"""What the savings heuristic would make of the rest of a CVRP [Clarke & Wright 1964]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.kernels import compiler
from models.kernels import savings as fused
from problems.cvrp import State
from problems.cvrp_types import Instance

TABLES = 8  # numbers of each pair of tokens and shape held at once, about, where torch makes the plan
# Shapes, each of which shortens the shortest plan most beside those before it (docs/log.md). Trained policies count on
# them.
SHAPES = (
    *((1.0, 0.0), (1.6, 0.5), (0.8, -0.4), (1.4, 0.8), (1.3, 0.1), (2.0, 1.0), (0.8, 0.4), (0.5, -0.4)),
    *((1.3, 0.4), (1.4, -0.1), (2.4, 1.2), (0.8, -0.1), (1.3, 0.2), (1.1, 0.1), (1.9, 0.7), (0.4, 0.8)),
    *((1.1, -0.2), (1.1, -0.6), (1.5, 0.5), (1.4, 1.4), (0.6, -0.4), (1.8, 0.9), (1.8, 0.4), (0.3, -0.6)),
    *((1.1, 0.3), (0.9, 0.0), (1.1, 0.7), (1.0, -0.1), (1.5, 0.4), (1.9, 1.4), (1.5, -0.2), (0.4, 1.2)),
)


class Plan(NamedTuple):
    links: Tensor  # [R, n+2, 2] int64 the tokens before and after each, in no order; n+1, the depot, where none is
    route: Tensor  # [R, n+2] int64 the first token of each one's route: 0 of those that the vehicle serves


def checked_shapes(savings: int | Sequence[float | Sequence[float]]) -> Tensor:
    """The shapes [S, 2] that a user asks for: the first of SHAPES, or a list. Raises ValueError for what is no such."""
    rule = f"savings must be a number of plans, 0 to {len(SHAPES)}, or a list of route shapes"
    if type(savings) is int and 0 <= savings <= len(SHAPES):
        savings = SHAPES[:savings]
    elif not isinstance(savings, Sequence) or isinstance(savings, str | bytes):
        raise ValueError(f"{rule}, got {savings!r}")
    pairs = [tuple(shape) if isinstance(shape, Sequence) else (shape, 0.0) for shape in savings]
    for pair in pairs:
        numbers = len(pair) == 2 and all(type(x) in (int, float) for x in pair)
        if not (numbers and 1e-3 <= pair[0] <= 1e3 and abs(pair[1]) <= 1e3):
            raise ValueError(f"{rule}: numbers of 0.001 to 1000, or [such a number, -1000 to 1000], got {savings}")
    return torch.tensor(pairs, dtype=torch.float32).view(-1, 2)


def loads_in(instance: Instance, state: State) -> Tensor:
    """Loads [R, n+1] of the vehicle and of the customers looked at."""
    return torch.cat([(instance.capacity - state.left)[:, None], instance.demands.gather(1, state.near)], dim=1)


def plan_of(instance: Instance, state: State, points: Tensor, shapes: Tensor) -> Plan:
    """The plan for the customers looked at; the vehicle in the depot is joined with none."""
    load = loads_in(instance, state)
    load[:, 0] = load[:, 0].where(state.origin > 0, instance.capacity + 1)
    return savings_plan(points, load, instance.capacity, shapes)


def savings_plan(points: Tensor, load: Tensor, capacity: Tensor, shapes: Tensor) -> Plan:
    """The routes of the savings heuristic: at first every customer has a route of its own, and the vehicle goes home.

    Two routes are joined at those of their ends that save most, the largest saving first, as long as one vehicle can
    serve both; of equal savings either may come first. A shape is two numbers: how much the way between the two ends
    counts [Yellow 1970], and how much the difference of their distances from the depot [Paessens 1988]. Of the plans of
    several shapes the shortest is taken. Waits for a GPU after every joining of pairs, about ten times.

    Arguments:
        points: [R, n+2, 2] of the vehicle on its way, the customers and the depot
        load: [R, n+1] int64 of the vehicle so far, and the customers' demands; a load above the capacity joins nothing
        capacity: [R] int64 of every vehicle
        shapes: [S, 2]; Clarke and Wright's is (1, 0)
    """
    if compiler.applies(load.device) and (capacity < fused.LIMIT).all():
        return Plan(*fused.savings(points, load, capacity, shapes))
    return _by_torch(points, load, capacity, shapes)


def _by_torch(points: Tensor, load: Tensor, capacity: Tensor, shapes: Tensor) -> Plan:
    """The routes of all shapes, side by side; then of each row the shortest."""
    rows, size = load.shape
    distance = (points[:, :, None] - points[:, None]).norm(dim=-1)  # [R, n+2, n+2]
    home = distance[:, -1, :-1]
    way, difference = shapes.to(home).T[:, :, None, None, None]  # [S, 1, 1, 1] each
    apart = home[:, :, None] - home[:, None]
    saving = home[:, :, None] + home[:, None] - way * distance[:, :-1, :-1] + difference * apart.abs()
    saving = saving.where(saving > 0, 0.0)  # of what is no number, too
    plan = _joined(saving.flatten(0, 1), load.repeat(len(shapes), 1), capacity.repeat(len(shapes)))
    links = plan.links.view(len(shapes), rows, size + 1, 2)
    ways = distance.expand(len(shapes), -1, -1, -1).gather(3, links).double()
    share = torch.where(links == size, 1.0, 0.5)  # of two neighbours each has a half
    length = (ways * share)[:, :, :-1].sum(dim=(2, 3))  # and the vehicle's way from the depot
    shortest = length.argmin(dim=0) * rows + torch.arange(rows, device=load.device)
    return Plan(*(field.index_select(0, shortest) for field in plan))


def _joined(saving: Tensor, load: Tensor, capacity: Tensor) -> Plan:
    """All routes that save most with each other are joined at once.

    That comes to the same: while others are joined, what a route can save only falls, so none comes between the two.

    Arguments:
        saving: [R, n+1, n+1]
    """
    rows, size = load.shape
    token = torch.arange(size, device=load.device).expand(rows, -1)
    number = torch.arange(size, dtype=torch.int32, device=load.device)
    pair = torch.minimum(number[:, None], number) * size + torch.maximum(number[:, None], number)  # [n+1, n+1]
    none = size * size
    route = token
    links = torch.full((rows, size + 1, 2), size, device=load.device)
    degree = (token == 0).long()  # of links; the vehicle has come from somewhere
    for _ in range(size):
        together = route[:, :, None] == route[:, None]  # [R, n+1, n+1]
        fits = load[:, :, None] + load[:, None] <= capacity[:, None, None]
        open_ = degree < 2
        value = saving * (fits & ~together & open_[:, :, None] & open_[:, None])
        best = (value.amax(dim=2)[:, None] * together).amax(dim=2)  # of the route
        first, other = pair.where((value == best[:, :, None]) & (value > 0), none).min(dim=2)
        least = first[:, None].where(together, none).amin(dim=2)  # of equals the same for both routes
        chosen = (first == least) & (first < none)
        joined = chosen & chosen.gather(1, other) & (other.gather(1, other) == token)
        if not joined.any():
            break
        place = degree[..., None] == torch.arange(2, device=load.device)
        links[:, :-1] = other[..., None].where(joined[..., None] & place, links[:, :-1])
        degree = degree + joined
        load = load + ((load.gather(1, other) * joined)[:, None] * together).sum(dim=2)
        label = torch.minimum(route, route.gather(1, other)).where(joined, route)
        route = label[:, None].where(together, size).amin(dim=2)
    return Plan(links, nn.functional.pad(route, (0, 1), value=size))
