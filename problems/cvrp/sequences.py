"""The routes of a solution in another order, and pieces of them."""

from __future__ import annotations

import torch
from torch import Tensor


def in_order(customers: Tensor, route: Tensor, rank: Tensor, forwards: Tensor) -> tuple[Tensor, Tensor]:
    """The same routes, sorted by their rank: customers [R, N], and whether each is reached via the depot [R, N].

    Arguments:
        customers: [R, N] of the decisions
        route: [R, N] 0, 1, ... of each decision, ascending
        rank: [R, N] of each route, the lowest first
        forwards: bool [R, N] whether a route is driven as it is, or in the other direction
    """
    place = torch.arange(customers.shape[1], device=customers.device).expand_as(customers)
    order = (place * torch.where(forwards, 1, -1).gather(1, route)).argsort(dim=1)  # within each route, ...
    order = order.gather(1, rank.gather(1, route.gather(1, order)).argsort(dim=1, stable=True))  # ... of the routes
    customers, route = customers.gather(1, order), route.gather(1, order)
    via_depot = torch.ones_like(customers, dtype=torch.bool)
    via_depot[:, 1:] = route[:, 1:] != route[:, :-1]
    return customers, via_depot


def farthest_first(coords: Tensor, customers: Tensor, route: Tensor) -> tuple[Tensor, Tensor]:
    """Rank and direction for `in_order`: the route with the farthest customer first, from its farther end.

    Arguments:
        coords: [R, N+1, 2]; distances count from the depot, node 0
        customers, route: as in `in_order`
    """
    away = (coords - coords[:, :1]).norm(dim=-1).gather(1, customers)  # [R, N] from the depot
    first, last = _ends(route)
    farthest, begin, end = torch.zeros(3, *route.shape, device=route.device, dtype=away.dtype)
    farthest.scatter_reduce_(1, route, away, "amax")
    begin.scatter_add_(1, route, away * first)
    end.scatter_add_(1, route, away * last)
    return -farthest, begin >= end


def sweep(coords: Tensor, customers: Tensor, route: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Rank and direction for `in_order`: the routes as a ray that turns around the depot meets their centres.

    The ray starts in a random direction and turns to a random side. It meets the end of a route at which the route
    begins before the other one, so that a route begins near the end of the one before. A sweep that makes such routes
    is due to Gillett and Miller 1974 (A heuristic algorithm for the vehicle-dispatch problem).

    Arguments:
        coords, customers, route: as in `farthest_first`
        uniform: [R, 2] random numbers: where the ray starts, and to which side it turns
    """
    away = (coords - coords[:, :1]).gather(1, customers[..., None].expand(-1, -1, 2))  # [R, N, 2]
    first, last = _ends(route)
    points = torch.cat([away, away * first[..., None], away * last[..., None]], dim=2)
    sums = torch.zeros_like(points).scatter_add_(1, route[..., None].expand_as(points), points)
    centre, begin, end = torch.atan2(sums[..., 1::2], sums[..., ::2]).unbind(dim=2)  # directions [R, N] of each route
    side = torch.where(uniform[:, 1:] < 0.5, 1.0, -1.0).to(away)

    def ahead(direction: Tensor) -> Tensor:
        return ((direction - centre) * side + torch.pi) % (2 * torch.pi)

    rank = (centre * side + uniform[:, :1].to(away) * 2 * torch.pi) % (2 * torch.pi)
    return rank, ahead(begin) <= ahead(end)


def _ends(route: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each of the decisions [R, N] is the first of its route, and whether it is the last."""
    first = torch.ones_like(route, dtype=torch.bool)
    first[:, 1:] = route[:, 1:] != route[:, :-1]
    return first, first.roll(-1, dims=1)


def cut(via_depot: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Pieces of `length` decisions that end where a route ends: their rows and first decisions [P].

    They are cut from the end of a solution to its beginning. The decision before a piece is in no piece: its customer
    is where the piece begins.

    Arguments:
        via_depot: bool [R, N] whether each decision begins a route
    """
    rows, count = via_depot.shape
    place = torch.arange(count, device=via_depot.device)
    last_end = (place * via_depot).cummax(dim=1).values  # [R, N] where the route before a place's route ends; 0: none
    stop = torch.full((rows,), count, device=via_depot.device)
    firsts = []
    for _ in range(max(1, count // (length + 1))):
        first = stop - length
        firsts.append(first)
        # Where this is 0, the next `first` is negative: no piece.
        stop = last_end.gather(1, (first - 1).clamp(min=0)[:, None]).squeeze(1)
    first = torch.stack(firsts, dim=1)  # [R, most]
    row, piece = (first >= 0).nonzero().unbind(1)
    return row, first[row, piece]


def loads_so_far(demands: Tensor, via_depot: Tensor) -> Tensor:
    """The load [R, N] of a route up to each of its customers, that customer included.

    Arguments:
        demands: [R, N] of the customers, in the order of the decisions
        via_depot: bool [R, N] whether each decision begins a route
    """
    total = demands.cumsum(dim=1)
    before = ((total - demands) * via_depot).cummax(dim=1).values  # of the routes before
    return total - before


def end_directly(via_depot: Tensor, demands: Tensor, capacity: Tensor) -> Tensor:
    """Whether each decision begins a route, bool [R, N], once the last customer is reached directly if the load fits.

    Arguments:
        via_depot, demands: as in `loads_so_far`
        capacity: [R]
    """
    if via_depot.shape[1] == 1:
        return via_depot  # there is no customer before
    load = loads_so_far(demands, via_depot)[:, -2] + demands[:, -1]
    last = via_depot[:, -1] & (load > capacity)
    return torch.cat([via_depot[:, :-1], last[:, None]], dim=1)
