"""A toy whose whole solution space can be written down: random trees with leaves of unequal depth."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.interfaces import Policy, Problem

ACTIONS, DEPTH = 3, 3
NODES = sum(ACTIONS**d for d in range(DEPTH + 1))  # of the complete tree; the children of node i are 3i+1 .. 3i+3


class Trees(NamedTuple):
    legal: Tensor  # [B, NODES, A]
    logits: Tensor  # [B, NODES, A] float64
    outcome: Tensor  # [B, NODES] objective of the leaf a finished game is in


class Place(NamedTuple):
    node: Tensor  # [R]
    depth: Tensor  # [R]


class TreeProblem(Problem):
    """Walk down a tree; a node whose outcome is set early only allows action 0 from then on."""

    name = "tree"

    def generate(self, n: int, generator: torch.Generator, branching: float = 0.7) -> Trees:
        legal = torch.rand(n, NODES, ACTIONS, generator=generator) < branching
        legal[:, 0] = True
        ended = torch.rand(n, NODES, generator=generator) < 0.2
        ended[:, 0] = False
        outcome = torch.randn(n, NODES, generator=generator, dtype=torch.float64)
        for node in range(NODES):
            for action in range(ACTIONS):
                if (child := ACTIONS * node + action + 1) < NODES:
                    ended[:, child] |= ended[:, node]
                    outcome[:, child] += outcome[:, node]  # so that good leaves have good neighbours
        only_first = torch.tensor([True, False, False])
        legal = torch.where((ended | ~legal.any(-1))[..., None], only_first, legal)
        logits = 2 * torch.randn(n, NODES, ACTIONS, generator=generator, dtype=torch.float64)
        return Trees(legal, logits, outcome)

    def num_actions(self, instance: Trees) -> int:
        return ACTIONS

    def horizon(self, instance: Trees) -> int:
        return DEPTH

    def last_choice(self, instance: Trees) -> int:
        return DEPTH - 1

    def reset(self, instance: Trees) -> Place:
        zeros = torch.zeros(len(instance.legal), dtype=torch.int64)
        return Place(zeros, zeros)

    def step(self, instance: Trees, state: Place, action: Tensor) -> Place:
        return Place(ACTIONS * state.node + action + 1, state.depth + 1)

    def mask(self, instance: Trees, state: Place) -> Tensor:
        return instance.legal[torch.arange(len(state.node)), state.node]

    def cost(self, instance: Trees, actions: Tensor) -> Tensor:
        rows = torch.arange(len(actions))
        node = torch.zeros(len(actions), dtype=torch.int64)
        for action in actions.unbind(1):
            if not instance.legal[rows, node, action].all():
                raise ValueError(f"illegal action in {actions}")
            node = ACTIONS * node + action + 1
        return -instance.outcome[rows, node]


class TablePolicy(Policy):
    """The logits written in the instance."""

    def forward(self, context: Trees, state: Place) -> Tensor:
        return context.logits[torch.arange(len(state.node)), state.node]


class Leaf(NamedTuple):
    actions: tuple[int, ...]
    probability: float
    outcome: float


def enumerate_leaves(trees: Trees, row: int) -> list[Leaf]:
    """All solutions of one tree with their probabilities under its table, by plain loops."""
    leaves = []
    for actions in itertools.product(range(ACTIONS), repeat=DEPTH):
        node, probability = 0, 1.0
        for action in actions:
            legal = trees.legal[row, node]
            weights = trees.logits[row, node].exp() * legal
            probability *= (weights[action] / weights.sum()).item()
            node = ACTIONS * node + action + 1
        if probability > 0:
            leaves.append(Leaf(actions, probability, trees.outcome[row, node].item()))
    return leaves


def small_tree(leaves: int) -> Trees:
    """The first random tree (one row) with so many leaves, not all of them deep."""
    for seed in range(10_000):
        trees = TreeProblem().generate(1, torch.Generator().manual_seed(seed), branching=0.4)
        found = enumerate_leaves(trees, 0)
        early = any(trees.legal[0, a + 1].sum() == 1 for a in range(ACTIONS))
        if len(found) == leaves and early and min(leaf.probability for leaf in found) > 0.03:
            return trees
    raise AssertionError("no such tree")


def copies(trees: Trees, n: int) -> Trees:
    """One tree n times."""
    return Trees(*(field.expand(n, *field.shape[1:]) for field in trees))
