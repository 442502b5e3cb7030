"""A slow, obvious stochastic beam search on one instance, straight from the pseudocode: dictionaries and recursion.

Shares nothing with the fast code but the noise (`seeding.gumbel_noise`) and the tables it searches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch

from gumbeldore.sampler.solutions import Solutions
from gumbeldore.seeding import gumbel_noise
from tests.helpers.trees import ACTIONS, DEPTH, Trees


@dataclass
class Node:
    id: int
    depth: int
    log_mass: dict[int, float]  # of each child, absolute, unsampled
    advantage: dict[int, float]
    children: dict[int, Node] = field(default_factory=dict)

    def total(self) -> float:
        return logsumexp(list(self.log_mass.values()))


@dataclass
class Found:
    actions: tuple[int, ...]
    phi: float
    gumbel: float
    outcome: float


def logsumexp(values: list[float]) -> float:
    top = max(values, default=-math.inf)
    return top if top == -math.inf else top + math.log(sum(math.exp(v - top) for v in values))


def normalise(values: dict[int, float]) -> dict[int, float]:
    total = logsumexp(list(values.values()))
    return {a: v - total for a, v in values.items()}


class Reference:
    """Rounds of algorithm 1 of [SBS] with the updates of [GD] on row `row` of the trees."""

    def __init__(self, trees: Trees, row: int, key: int, width: int, top_p: float = 1.0):
        self.trees, self.row, self.key, self.width, self.top_p = trees, row, key, width, top_p
        self.root = self.expand(0, 0, 0.0)

    def expand(self, id: int, depth: int, log_mass: float) -> Node:
        legal = [a for a in range(ACTIONS) if self.trees.legal[self.row, id, a]]
        policy = normalise({a: self.trees.logits[self.row, id, a].item() for a in legal})
        return Node(id, depth, {a: log_mass + p for a, p in policy.items()}, dict.fromkeys(legal, 0.0))

    def conditional(self, node: Node) -> dict[int, float]:
        shifted = normalise({a: m + node.advantage[a] for a, m in node.log_mass.items() if m > -math.inf})
        kept, reached = {}, 0.0
        for action in sorted(shifted, key=shifted.get, reverse=True):
            if reached < self.top_p:
                kept[action] = shifted[action]
                reached += math.exp(shifted[action])
        return normalise(kept)

    def perturb(self, phi: dict[int, float], parent: float, round_: int, depth: int, position: int) -> dict[int, float]:
        place = round_ * (DEPTH + 1) + 1 + depth
        noise = gumbel_noise(torch.tensor([self.key]), place, (self.width, ACTIONS))[0, position].tolist()
        g = {a: p + noise[a] for a, p in phi.items()}
        z = max(g.values())
        perturbed = {}
        for a, value in g.items():
            # [SBS, eq. 22] as it stands; the fast code uses the stable form
            inner = math.exp(-parent) - math.exp(-z) + math.exp(-value)
            perturbed[a] = -math.log(inner)
        return perturbed

    def round(self, round_: int, prefix: tuple[int, ...] = ()) -> list[Found]:
        """The leaves of a round that starts in the node of the prefix."""
        start = self.root
        for action in prefix:
            start = start.children[action]
        if start.total() == -math.inf:
            return []
        root = gumbel_noise(torch.tensor([self.key]), round_ * (DEPTH + 1), ()).item()
        beam = [(root, 0.0, prefix, start)]
        for depth in range(DEPTH - len(prefix)):
            options = []
            for position, (g, phi, actions, node) in enumerate(beam):
                children = {a: phi + p for a, p in self.conditional(node).items()}
                for a, value in self.perturb(children, g, round_, depth, position).items():
                    options.append((value, children[a], (*actions, a), node))
            options.sort(key=lambda option: -option[0])
            beam = []
            for g, phi, actions, node in options[: self.width]:
                action, id = actions[-1], ACTIONS * node.id + actions[-1] + 1
                if len(actions) == DEPTH:
                    beam.append((g, phi, actions, id))
                    continue
                if action not in node.children:
                    node.children[action] = self.expand(id, len(actions), node.log_mass[action])
                beam.append((g, phi, actions, node.children[action]))
        outcomes = self.trees.outcome[self.row]
        return [Found(actions, phi, g, outcomes[id].item()) for g, phi, actions, id in beam]

    def remove(self, found: list[Found]) -> None:
        for leaf in found:
            nodes = self.nodes_of(leaf)
            nodes[-1].log_mass[leaf.actions[-1]] = -math.inf
            for node, action in zip(reversed(nodes[:-1]), reversed(leaf.actions[:-1]), strict=True):
                node.log_mass[action] = node.children[action].total()

    def add(self, leaf: Found, advantage: float) -> None:
        for node, action in zip(self.nodes_of(leaf), leaf.actions, strict=True):
            node.advantage[action] += advantage

    def nodes_of(self, leaf: Found) -> list[Node]:
        nodes = [self.root]
        for action in leaf.actions[:-1]:
            nodes.append(nodes[-1].children[action])
        return nodes

    def weights(self, found: list[Found]) -> list[float]:
        if len(found) == 1:
            return [1.0]
        if len(found) < self.width:
            return [math.exp(leaf.phi) for leaf in found]
        kappa = min(leaf.gumbel for leaf in found)
        q = [1 - math.exp(-math.exp(leaf.phi - kappa)) for leaf in found[:-1]]
        return [math.exp(leaf.phi) / q_i for leaf, q_i in zip(found, q, strict=False)] + [0.0]

    def expectation(self, found: list[Found]) -> float:
        weights = self.weights(found)
        return sum(w * leaf.outcome for w, leaf in zip(weights, found, strict=True)) / sum(weights)

    def expectation_below(self, found: list[Found], prefix: tuple[int, ...], threshold: str) -> float:
        """[GD, eq. 5], with the smallest Gumbel of the node's own leaves as printed, or with that of the round."""
        through = [leaf for leaf in found if leaf.actions[: len(prefix)] == prefix]
        if len(through) == 1:
            return through[0].outcome
        if len(found) < self.width:
            weights = [math.exp(leaf.phi) for leaf in through]
        else:
            kappa = min(leaf.gumbel for leaf in (through if threshold == "node" else found))
            q = [1 - math.exp(-math.exp(leaf.phi - kappa)) for leaf in through]
            pairs = zip(through, q, strict=True)
            weights = [math.exp(leaf.phi) / q_i if leaf.gumbel > kappa else 0.0 for leaf, q_i in pairs]
        return sum(w * leaf.outcome for w, leaf in zip(weights, through, strict=True)) / sum(weights)

    def theory(self, found: list[Found], step_size: float, threshold: str) -> None:
        for prefix in {leaf.actions[:d] for leaf in found for d in range(1, DEPTH + 1)}:
            through_parent = [leaf for leaf in found if leaf.actions[: len(prefix) - 1] == prefix[:-1]]
            if len(through_parent) >= 2:
                child, parent = (self.expectation_below(found, node, threshold) for node in (prefix, prefix[:-1]))
                node = self.root
                for action in prefix[:-1]:
                    node = node.children[action]
                node.advantage[prefix[-1]] += step_size * (child - parent)


def assert_same_round(fast: Solutions, row: int, round_: int, width: int, found: list[Found]) -> None:
    """The fast search has found the same leaves in a round, with the same numbers."""
    if round_ >= fast.stats.rounds:
        assert found == []
        return
    at = slice(round_ * width, (round_ + 1) * width)
    valid = fast.valid[row, at]
    assert [leaf.actions for leaf in found] == [tuple(a) for a in fast.actions[row, at][valid].tolist()]
    assert [leaf.phi for leaf in found] == pytest.approx(fast.round_log_probs[row, at][valid].tolist(), abs=1e-8)
    assert [leaf.gumbel for leaf in found] == pytest.approx(fast.gumbels[row, at][valid].tolist(), abs=1e-6)
    assert (fast.round[row, at] == round_).all()
