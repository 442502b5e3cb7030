"""Files of experts, and small trainings that imitate them."""

from __future__ import annotations

from itertools import permutations

import torch

import train
from gumbeldore.training.dataset import PseudoExperts
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import typed

NETWORK = ["model.width=16", "model.heads=2", "model.feedforward=32", "precision=float32"]
WORDS = {
    "tsp": ["problem=tsp", "problem.num_nodes=6", "model.layers=1"],
    "cvrp": ["problem=cvrp", "problem.num_customers=5", "problem.capacity=[12,20]", "model.layers=1"],
    "jssp": ["problem=jssp", "problem.sizes=[[3,2]]", "problem.validation_sizes=[[3,2]]", "model.blocks=1"],
}
PROBLEMS = {"tsp": TSP(6), "cvrp": CVRP(5, [12, 20]), "jssp": JSSP([[3, 2]], [[3, 2]], reversal=True)}


def candidates(name: str, problem) -> torch.Tensor:
    """Sequences of actions, most of them legal, among which there is a best one."""
    if name == "tsp":
        return torch.tensor(list(permutations(range(1, problem.num_nodes))))
    if name == "cvrp":  # every order and every place for the depot, but the first customer always comes from it
        orders = torch.tensor(list(permutations(range(5))))
        places = torch.tensor([[1, *(i >> k & 1 for k in range(4))] for i in range(16)])
        return (orders[:, None] + 5 * places).flatten(0, 1)
    ((jobs, ops),) = problem.sizes
    return torch.tensor(sorted(set(permutations(torch.arange(jobs).repeat_interleave(ops).tolist()))))


def experts(folder, name, file="experts", problem=None, n=40):
    """A file of random instances with their best solutions, by trying all."""
    problem = problem or PROBLEMS[name]
    instances = problem.generate(n, torch.Generator().manual_seed(1))
    every = candidates(name, problem)
    best = []
    for row in range(n):
        repeated = type(instances)(*(field[row].expand(len(every), *field.shape[1:]) for field in instances))
        actions = every
        if name == "cvrp":
            route = (every >= 5).long().cumsum(dim=1) - 1
            loads = torch.zeros_like(every).scatter_add_(1, route, repeated.demands.gather(1, every % 5 + 1))
            legal = (loads <= repeated.capacity[:, None]).all(dim=1)
            repeated, actions = type(instances)(*(field[legal] for field in repeated)), every[legal]
        best.append(actions[problem.cost(repeated, actions).argmin()])
    actions = torch.stack(best)
    PseudoExperts(folder).add(file, instances, actions, problem.cost(instances, actions))
    return folder / f"{file}.npz"


def supervised(name, source, *words, cwd):
    small = ["debug=fast", "train.epochs=3", "train.batches_per_epoch=30", "train.batch_size=64", "images_every=100"]
    words = [*WORDS[name], *small, "train=supervised", f"train.experts={source}", *NETWORK, *words]
    return typed(train, *words, cwd=cwd)
