"""Random solutions, and the plainest one."""

from __future__ import annotations

import torch

from gumbeldore.testing import random_solution
from problems.tsp import TSP


def random_experts(n, num_nodes, seed=0):
    """Instances of the TSP, random tours and their lengths."""
    generator = torch.Generator().manual_seed(seed)
    instances = TSP(num_nodes).generate(n, generator)
    actions = torch.rand(n, num_nodes - 1, generator=generator).argsort(dim=1) + 1
    return instances, actions, TSP(num_nodes).cost(instances, actions)


def random_solutions(problem, n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    instance = problem.generate(n, generator)
    return instance, random_solution(problem, instance, generator)


def identity(instance_set, rows: int = 1) -> torch.Tensor:
    """The actions of the tours 0, 1, .., N-1."""
    return torch.arange(1, instance_set.instances.coords.shape[1]).repeat(rows, 1)
