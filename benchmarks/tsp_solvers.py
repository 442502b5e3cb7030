"""TSPs: a policy, PyVRP, and two programs made for the TSP, fast-tsp and LKH, in one run.

fast-tsp and LKH are no part of the project: pip install fast-tsp==0.2.2 elkai==2.0.1 (elkai contains LKH). Each row but
the first solves the instances one by one on one thread. The policy decodes greedily, then searches by reconstruction;
the greedy solution comes first, however long it takes. LKH takes its own time for one run. Seconds are wall-clock.
"""

from __future__ import annotations

import importlib
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

import gumbeldore
from benchmarks.machine import numbers
from gumbeldore.runtime.hardware import hardware
from problems.solvers import Solver

DEFAULTS = {"checkpoint": "tsp_local", "instances": "gd/tsp1000", "num_instances": 8, "seconds": "1,10", "seed": 0}
LARGEST = {"fast_tsp": 2**16 - 1, "elkai": 10**6}  # the longest distance, as a whole number
INSTALL = "pip install fast-tsp==0.2.2 elkai==2.0.1"

Solve = Callable[[Tensor], float]  # the length of a tour of nodes [N, 2]


def package(name: str) -> ModuleType:
    """Raises ValueError, which says how to install it, where it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ValueError(f"{name} is missing: {INSTALL}") from None


def length(coords: Tensor, tour: list[int]) -> float:
    """The length of a closed tour. Raises ValueError unless it visits each node once."""
    if sorted(tour) != list(range(len(coords))):
        raise ValueError("a program returned a sequence of nodes that is no tour")
    nodes = coords[tour]
    return (nodes - nodes.roll(1, dims=0)).norm(dim=1).sum().item()


def whole_distances(coords: Tensor, largest: int) -> np.ndarray:
    """The distances [N, N], scaled so that the longest is `largest`, and rounded."""
    distances = torch.cdist(coords, coords, compute_mode="donot_use_mm_for_euclid_dist")
    return (distances * (largest / distances.max())).round().long().numpy()


def by_fast_tsp(coords: Tensor, seconds: float) -> float:
    distances = whole_distances(coords, LARGEST["fast_tsp"])
    return length(coords, list(package("fast_tsp").find_tour(distances, seconds)))


def by_lkh(coords: Tensor) -> float:
    distances = whole_distances(coords, LARGEST["elkai"]).tolist()
    return length(coords, package("elkai").DistanceMatrix(distances).solve_tsp(runs=1)[:-1])  # the last is the first


def by_policy(policy: Any, seed: int, coords: Tensor, **search: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a time limit that only the greedy solution reaches: the seconds show it
        return gumbeldore.solve(policy, coords=coords.numpy(), device="cpu", seed=seed, **search).cost


def one_by_one(solve: Solve, coords: Tensor) -> tuple[Tensor, float]:
    """The lengths [n] of tours of coords [n, N, 2], and the mean seconds."""
    start = time.perf_counter()
    costs = torch.tensor([solve(nodes) for nodes in coords], dtype=torch.float64)
    return costs, (time.perf_counter() - start) / len(coords)


def main(checkpoint: str, instances: str, num_instances: int, seconds: str, seed: int) -> None:
    limits = numbers("seconds", seconds, float)
    for name in LARGEST:
        package(name)
    torch.set_num_threads(1)
    policy = gumbeldore.load_policy(checkpoint)
    if policy.problem.name != "tsp":
        raise ValueError(f"checkpoint={checkpoint} is a policy for {policy.problem.name}, not for the tsp")
    (instance_set,) = gumbeldore.load_instances(policy.problem, instances, num_instances=num_instances)
    coords, references = instance_set.originals.coords, instance_set.references
    print(f"{len(coords)} of {instances}, gap to {instance_set.kinds[0]}, s each; {hardware(torch.device('cpu'))}")

    def row(name: str, costs: Tensor, took: float) -> None:
        print(f"{name:40} {(costs / references - 1).mean().item():8.2%} {took:8.2f} s", flush=True)

    by_policy(policy, seed, coords[0], method="greedy")  # what the first call takes is no part of the times
    start = time.perf_counter()
    together = gumbeldore.solve(policy, coords=coords.numpy(), method="greedy", device="cpu")
    lengths = torch.tensor([found.cost for found in together], dtype=torch.float64)
    row(f"{checkpoint}, greedy, all together", lengths, (time.perf_counter() - start) / len(coords))
    greedy = partial(by_policy, policy, seed, method="greedy")
    row(f"{checkpoint}, greedy", *one_by_one(greedy, coords))
    for limit in limits:
        search = partial(by_policy, policy, seed, method="reconstruct", time_limit=limit)
        row(f"{checkpoint}, reconstruct, {limit:g} s", *one_by_one(search, coords))
    with tempfile.TemporaryDirectory() as folder:  # answers that were kept would have been found at another time
        for limit in limits:
            found = Solver(limit, seed=seed, folder=Path(folder)).solve("tsp", instance_set)
            row(found.kinds[0], found.costs, found.seconds.mean().item())
    for limit in limits:
        row(f"fast-tsp, {limit:g} s", *one_by_one(partial(by_fast_tsp, seconds=limit), coords))
    row("LKH (elkai), one run", *one_by_one(by_lkh, coords))
