"""InstanceSets of given instances without references, whose costs need nothing of an evaluation set."""

from __future__ import annotations

import math
from functools import partial

import torch

from gumbeldore.batches import take
from gumbeldore.instance_set import InstanceSet
from problems.cvrp import instances as cvrp_types
from problems.formats.tsplib import edge_lengths, tour_lengths
from problems.jssp.originals import Original
from problems.jssp.schedules import schedule
from problems.tsp import instances as tsp_types


def unsolved(originals, true_cost):
    """An instance set without references."""
    n = len(originals[0])
    names, nothing = [f"set/{i}" for i in range(n)], torch.full((n,), math.nan, dtype=torch.float64)
    return InstanceSet(names, None, originals, partial(true_cost, originals), nothing, [""] * n)


def tsp(coords, metrics):
    def true_cost(original, index, actions):
        tsp_types.check_tours(actions, original.coords.shape[1])
        tours = tsp_types.as_tours(actions)
        columns = zip(index.tolist(), tours, strict=True)
        return torch.cat([tour_lengths(original.coords[i], tour[None], original.metrics[i]) for i, tour in columns])

    return unsolved(tsp_types.Original(coords, metrics), true_cost)


def cvrp(coords, demands, capacity, metrics):
    def true_cost(original, index, actions):
        instance = cvrp_types.Instance(original.coords[index], original.demands[index], original.capacity[index])
        cvrp_types.check_routes(instance, actions)
        walks = cvrp_types.as_walks(actions, actions.shape[1])
        points = instance.coords.gather(1, walks[..., None].expand(-1, -1, 2))
        columns = zip(index.tolist(), points, strict=True)
        return torch.stack([edge_lengths(p[1:], p[:-1], original.metrics[i]).sum() for i, p in columns])

    return unsolved(cvrp_types.Original(coords, demands, capacity, metrics), true_cost)


def jssp(times, machines):
    def true_cost(original, index, actions):
        shop = take(original.to_schedule(), index)
        return (schedule(shop, actions) + shop.times).amax(dim=(1, 2)).double()

    return unsolved(Original.of({"times": times.numpy(), "machines": machines.numpy()}), true_cost)


def random_points(n, nodes, seed=0, scale=1.0):
    return scale * torch.rand(n, nodes, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
