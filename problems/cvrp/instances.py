"""What the CVRP and its evaluation sets share: the instance, and the one check that actions form legal routes."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from problems.formats.tsplib import Metric


class Instance(NamedTuple):
    coords: Tensor  # [R, N+1, 2] in the unit square; node 0 is the depot
    demands: Tensor  # [R, N+1] int64, 0 at the depot
    capacity: Tensor  # [R] int64 of every vehicle; there are as many as it takes


class Original(NamedTuple):
    """Instances of one size in their own units."""

    coords: Tensor  # [n, N+1, 2] float64
    demands: Tensor  # [n, N+1] int64
    capacity: Tensor  # [n] int64
    metrics: list[Metric]  # n


def check_instance(instance: Instance) -> None:
    """Raises ValueError unless coordinates are numbers and 0 <= demands <= capacity, with none at the depot."""
    coords, demands, capacity = instance
    if coords.shape != (*demands.shape, 2) or capacity.shape != demands.shape[:1]:
        shapes = ", ".join(str(list(field.shape)) for field in instance)
        raise ValueError(f"coords, demands and capacity must be [n, N+1, 2], [n, N+1] and [n], got {shapes}")
    fits = (demands >= 0) & (demands <= capacity[:, None])
    fits[:, 0] = demands[:, 0] == 0
    for well, rule in (
        (coords.isfinite(), "coordinates must be numbers"),
        (fits, "demands must be within 0..capacity, and 0 at the depot"),
    ):
        if not well.all():
            raise ValueError(f"{rule}; not so in instance {int((~well).nonzero()[0, 0])}")


def decode(actions: Tensor, num_customers: int) -> tuple[Tensor, Tensor]:
    """The customers 1..N that actions [...] in 0..2N-1 go to, and whether they go there via the depot."""
    return actions % num_customers + 1, actions >= num_customers


def encode(customers: Tensor, via_depot: Tensor, num_customers: int) -> Tensor:
    """The inverse of `decode`."""
    return customers - 1 + num_customers * via_depot


def of_routes(routes: list[list[int]], num_customers: int) -> Tensor:
    """The actions [N] that drive lists of customers 1..N, one after the other."""
    customers = torch.tensor([customer for route in routes for customer in route])
    via_depot = torch.tensor([place == 0 for route in routes for place in range(len(route))])
    return encode(customers, via_depot, num_customers)


def as_routes(actions: Tensor) -> list[list[int]]:
    """The inverse of `of_routes`."""
    customers, via_depot = (part.tolist() for part in decode(actions, len(actions)))
    starts = [place for place, via in enumerate(via_depot) if via]
    return [customers[i:j] for i, j in pairwise([*starts, len(customers)])]


def routes_of(instance: Instance, actions: Tensor) -> tuple[Tensor, Tensor]:
    """The route 0, 1, ... of each decision [R, N], and the load of each route [R, N] (0: there is no such route)."""
    customers, via_depot = decode(actions, actions.shape[1])
    route = via_depot.long().cumsum(dim=1) - 1
    return route, torch.zeros_like(actions).scatter_add_(1, route, instance.demands.gather(1, customers))


def check_routes(instance: Instance, actions: Tensor) -> None:
    """Raises ValueError unless the routes visit every customer once, from the depot, and none loads too much.

    Waits for the device.
    """
    num_customers = instance.coords.shape[1] - 1
    if actions.dim() != 2 or actions.shape[1] != num_customers:
        raise ValueError(f"{num_customers} customers take as many actions, got shape {tuple(actions.shape)}")
    if ((actions < 0) | (actions >= 2 * num_customers)).any():
        raise ValueError(f"actions of {num_customers} customers are 0..{2 * num_customers - 1}")
    customers, via_depot = decode(actions, num_customers)
    expected = torch.arange(1, num_customers + 1, device=actions.device)
    _refuse((customers.sort(dim=1).values != expected).any(dim=1), "does not visit every customer once", actions)
    _refuse(~via_depot[:, 0], "leaves the depot without coming from it", actions)
    _, loads = routes_of(instance, actions)
    _refuse((loads > instance.capacity[:, None]).any(dim=1), "loads more than the capacity", actions)


def as_walks(actions: Tensor, num_customers: int) -> Tensor:
    """The nodes [R, 2N+1] from depot to depot; where no depot lies between two customers, the first is repeated."""
    customers, via_depot = decode(actions, num_customers)
    depot = torch.zeros_like(customers[:, :1])
    before = torch.where(via_depot, 0, torch.cat([depot, customers[:, :-1]], dim=1))
    return torch.cat([torch.stack([before, customers], dim=2).flatten(1), depot], dim=1)


def _refuse(wrong: Tensor, rule: str, actions: Tensor) -> None:
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(f"row {row} {rule}: {actions[row].tolist()}")
