"""The local search of the job shop for batches of instances, whose solutions are sequences of decisions."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from gumbeldore.batches import repeated, take
from gumbeldore.runtime.jit import compiling
from problems.jssp.instances import Instance, job_shop
from problems.jssp.local_search.job_shop import Effort, JobShop
from problems.jssp.local_search.path_relinking import improved
from problems.jssp.local_search.tabu_search import tabu_search
from problems.jssp.schedules import operations_of

TINY = [[[2.0, 1.0], [1.0, 2.0]]], [[[0, 1], [1, 0]]]  # times and machines


def prepare() -> None:
    """Compile what is compiled, or load what was kept of it."""
    with compiling(tabu_search, "the local search of job shops"):
        tiny = job_shop(torch.tensor(TINY[0]), torch.tensor(TINY[1]))
        searched(tiny, torch.tensor([[[0, 0, 1, 1]]]), 10, torch.zeros(1, dtype=torch.int64))


def searched(instance: Instance, actions: Tensor, steps: float, seeds: Tensor, deadline: float = math.inf) -> Tensor:
    """The decisions [R, T] of the schedules that path relinking finds, all on the CPU; arguments as of the ability."""
    found = []
    for row, seed in enumerate(seeds.tolist()):
        one, now = take(instance, slice(row, row + 1)), time.monotonic()
        shop = JobShop.of(one)
        different = torch.tensor(list(dict.fromkeys(map(tuple, actions[row].tolist()))))
        places = operations_of(repeated(one, len(different)), different).argsort(dim=1)  # of each operation
        effort = Effort(steps, now + (deadline - now) / (len(actions) - row))
        best = improved(shop, list(places.double().numpy()), effort, seed % 2**64)
        found.append(torch.from_numpy(shop.job[best.order]))
    return torch.stack(found)
