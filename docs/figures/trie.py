"""Draws docs/figures/trie.svg: the trie of a small TSP before and after the update between two rounds.

    python -m docs.figures.trie

The search is the real one: an update that looks at the trie before and after Gumbeldore's takes the picture.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gumbeldore.interfaces import Policy
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import Leaves
from gumbeldore.sampler.methods import WithoutReplacement
from gumbeldore.sampler.search import search
from gumbeldore.sampler.trie import Trie
from gumbeldore.sampler.updates import gumbeldore
from problems.tsp import TSP, State
from problems.tsp.instances import Instance

OUT = Path(__file__).with_suffix(".svg")
WIDTH, STEP_SIZE = 3, 1.5
INSTANCE = Instance(torch.tensor([[[0.1, 0.1], [0.9, 0.2], [0.8, 0.9], [0.2, 0.8], [0.45, 0.55]]]))


class Nearest(Policy):
    """The nearer a node, the more likely it is next."""

    def forward(self, context: Instance, state: State) -> Tensor:
        here = context.coords.gather(1, state.origin[:, None, None].expand(-1, 1, 2))
        return -4 * (context.coords - here).norm(dim=-1)


class Node(NamedTuple):
    """A prefix of decisions that is in the trie, or the child of one."""

    prefix: tuple[int, ...]
    probability: float  # given its parent; 0: nothing of it is left
    leaf: int | None  # rank among the sampled leaves, None if it is none


class Picture:
    """The trie as the first round left it, and as the second will read it."""

    def __init__(self) -> None:
        self.before: list[Node] = []
        self.after: list[Node] = []
        self.lengths: list[float] = []

    def __call__(self, trie: Trie, leaves: Leaves, objective: Tensor) -> None:
        if self.before:
            return
        self.before = nodes_of(trie, leaves)
        gumbeldore(trie, leaves, objective, STEP_SIZE)
        self.after = nodes_of(trie, leaves)
        self.lengths = (-objective[0]).tolist()


def nodes_of(trie: Trie, leaves: Leaves) -> list[Node]:
    """The visited nodes and their children, by depth, with the probabilities that the next round would sample from."""
    sampled = [tuple(actions.tolist()) for actions in leaves.actions[0]]
    horizon = len(sampled[0])
    places = {(): 0}
    for rank, actions in enumerate(sampled):
        for depth in range(1, horizon + 1):
            places[actions[:depth]] = leaves.node[depth][0, leaves.path[depth][0, rank]].item()
    found = []
    for prefix, slot in places.items():
        if len(prefix) == horizon:
            continue
        children = trie_ops.read_children(trie, len(prefix), torch.tensor([[slot]]), leaves.filled)
        shares = (children.log_mass + children.advantage)[0, 0].softmax(dim=0).nan_to_num()
        for action in legal_actions(trie, len(prefix), slot):
            child = (*prefix, action)
            rank = sampled.index(child) if child in sampled else None
            found.append(Node(child, shares[action].item(), rank))
    return found


def legal_actions(trie: Trie, depth: int, slot: int) -> list[int]:
    log_probs = trie_ops.read_policy(trie, depth, trie_ops.places(trie, torch.tensor([[slot]]))[0, 0])
    return (log_probs > -math.inf).nonzero().flatten().tolist()


def positions(nodes: list[Node]) -> dict[tuple[int, ...], tuple[float, float]]:
    """x by the order of the nodes that have no children here, y by depth."""
    names = sorted(node.prefix for node in nodes)
    ends = [name for name in names if not any(other[:-1] == name for other in names)]
    place = {name: (float(x), -float(len(name))) for x, name in enumerate(ends)}
    for name in sorted([*names, ()], key=len, reverse=True):
        if name not in place:
            below = [place[child][0] for child in names if child[:-1] == name]
            place[name] = (sum(below) / len(below), -float(len(name)))
    return place


def draw(axes: Axes, nodes: list[Node], lengths: list[float], title: str) -> None:
    place = positions(nodes)
    axes.scatter(*place[()], s=180, color="tab:blue", zorder=2)
    axes.text(*place[()], "0", color="white", ha="center", va="center", fontsize=8)
    parents = {node.prefix[:-1] for node in nodes}
    for node in nodes:
        (x, y), (above, top) = place[node.prefix], place[node.prefix[:-1]]
        gone = node.probability == 0
        visited = node.prefix in parents or node.leaf is not None
        axes.plot(
            [above, x], [top, y], color="lightgrey" if gone else "black", linewidth=0.4 + 4 * node.probability, zorder=1
        )
        colour = "tab:orange" if node.leaf is not None else "tab:blue" if visited else "white"
        axes.scatter(x, y, s=180, color=colour, edgecolor="tab:blue" if not visited else colour, zorder=2)
        axes.text(x, y, node.prefix[-1], color="white" if visited else "black", ha="center", va="center", fontsize=8)
        share = "0" if gone else f"{node.probability:.2f}"
        axes.text(
            x + 0.35 * (above - x), y + 0.35 * (top - y), share, fontsize=6.5, ha="center", va="center", bbox=LABEL
        )
        if node.leaf is not None:
            axes.text(x, y - 0.25, f"{lengths[node.leaf]:.2f}", ha="center", va="top", fontsize=8)
    axes.set_title(title, fontsize=9)
    axes.set_ylim(-4.6, 0.3)
    axes.axis("off")


LABEL = {"boxstyle": "square,pad=0.1", "color": "white"}


def picture_of_a_search() -> Picture:
    picture = Picture()

    class Watched(WithoutReplacement):
        def update(self, trie: Trie, leaves: Leaves, objective: Tensor) -> None:
            picture(trie, leaves, objective)

    search(TSP(5), Nearest(), INSTANCE, Watched(WIDTH, 2), torch.Generator().manual_seed(4))
    return picture


def main() -> None:
    picture = picture_of_a_search()
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, picture.before, picture.lengths, "Round 1: the policy, and the three tours that were sampled")
    draw(right, picture.after, picture.lengths, "What round 2 samples from")
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
