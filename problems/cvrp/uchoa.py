"""Depots and demands of the benchmark set X, by its generator [Uchoa]: Uchoa et al. 2017, New benchmark instances for
the Capacitated Vehicle Routing Problem (EJOR 257).
"""

from __future__ import annotations

import torch
from torch import Tensor

from problems.cvrp.instances import Instance

# Lowest and highest demand by kind: unitary; small or large, of large or small variance; by quadrant; many small.
LOWEST = torch.tensor([1, 1, 5, 1, 50, 1, 1])
HIGHEST = torch.tensor([1, 10, 10, 100, 100, 50, 10])
BY_QUADRANT, MANY_SMALL = 5, 6  # of which some customers have 51..100 and 50..100
USUAL = 5  # mean demand of the other instances, 1..9


def with_depots_and_demands(instance: Instance, rows: Tensor, generator: torch.Generator) -> Instance:
    """The instances, those in `rows` [m] with depots, demands and capacities of their own.

    A third of the depots each is in the centre, in a corner and anywhere. Each instance has one of seven kinds of
    demands. Its capacity is such that routes serve as many customers as before, at least the largest demand; in
    [Uchoa] it follows from a drawn number of customers a route.
    """
    coords, demands, capacity = (field.clone() for field in instance)
    coords[rows, 0] = _depots(len(rows), generator)
    own = _demands(coords[rows], generator)
    count = own.shape[1] - 1
    as_usual = -(-capacity[rows] * own.sum(dim=1) // (USUAL * count))  # rounded up
    demands[rows], capacity[rows] = own, torch.maximum(as_usual, own.amax(dim=1))
    return Instance(coords, demands, capacity)


def _depots(n: int, generator: torch.Generator) -> Tensor:
    anywhere = torch.rand(n, 2, dtype=torch.float32, generator=generator)
    kind = torch.randint(3, (n, 1), generator=generator)
    return torch.where(kind == 0, 0.5, torch.where(kind == 1, 0.0, anywhere))


def _demands(coords: Tensor, generator: torch.Generator) -> Tensor:
    """Demands int64 [m, N+1], 0 at the depot, of instances with these nodes [m, N+1, 2]."""
    m, nodes, _ = coords.shape
    draw = torch.rand(m, nodes + 1, 2, dtype=torch.float64, generator=generator)
    kind = torch.randint(len(LOWEST), (m, 1), generator=generator)
    lowest, highest = LOWEST[kind].expand(-1, nodes), HIGHEST[kind].expand(-1, nodes)
    odd = (coords[..., 0] > 0.5) == (coords[..., 1] > 0.5)  # the first and the third quadrant
    large = (kind == MANY_SMALL) & (draw[:, 1:, 1] > 0.7 + 0.25 * draw[:, :1, 1])  # 5 to 30% of the customers
    lowest = torch.where(large, 50, torch.where((kind == BY_QUADRANT) & odd, 51, lowest))
    highest = torch.where(large | (kind == BY_QUADRANT) & odd, 100, highest)
    demands = lowest + (draw[:, 1:, 0] * (highest - lowest + 1)).long()
    demands[:, 0] = 0
    return demands
