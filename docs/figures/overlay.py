"""Draws docs/figures/overlay.svg: how a depth of the trie is stored and read, and which states are evaluated once.

    python -m docs.figures.overlay

The arrays are those of a real search, after its first round.
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.figures.trie import Nearest
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.beam import Leaves
from gumbeldore.sampler.methods import WithoutReplacement
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie import Trie
from gumbeldore.seeding import generator
from problems.tsp import TSP

OUT = Path(__file__).with_suffix(".svg")
WIDTH, DEPTH, NODES = 5, 2, 6
SEED = 0  # of an instance whose first round meets a state twice, in its last two slots
VISITED, SHARED = "#fdd9b5", "#cfe2f3"


def after_a_round() -> tuple[Trie, Leaves]:
    """The trie of a search, and the leaves that its first round found."""
    problem, policy = TSP(NODES), Nearest()
    instance, key = problem.generate(1, generator(SEED)), torch.tensor([SEED])
    method = WithoutReplacement(WIDTH, 2)
    search = method.search(SearchTask(problem, policy, instance, policy.encode(instance), key, key))
    leaves, found = search.sample()
    search.learn(method.update, leaves, found)
    return search.trie, leaves


def prefix_of(trie: Trie, depth: int, slot: int) -> tuple[int, ...]:
    """The decisions that lead to a node."""
    if depth == 0:
        return ()
    parent, action = trie.parent[depth][0, slot].item(), trie.action[depth][0, slot].item()
    return (*prefix_of(trie, depth - 1, int(parent)), int(action))


def rows_of_slots(trie: Trie, depth: int) -> tuple[list[list[str]], list[int]]:
    """The nodes that are stored for a depth, and their slots."""
    slots = [slot for slot in range(WIDTH) if trie.parent[depth][0, slot] != trie_ops.NO_NODE]
    mass = trie.log_mass[depth][0].exp()
    return [
        [str(slot), *(str(field[depth][0, slot].item()) for field in (trie.parent, trie.action)), f"{mass[slot]:.3f}"]
        for slot in slots
    ], slots


def show(axes: Axes, title: str, header: list[str], rows: list[list[str]], colours: list[list[str]]) -> None:
    """A table with a title and coloured cells."""
    axes.axis("off")
    axes.set_title(title, fontsize=9)
    table = axes.table(rows, cellColours=colours, colLabels=header, cellLoc="center", loc="upper center")
    table.auto_set_font_size(False)
    table.set_fontsize(8)


def stored(axes: Axes, trie: Trie) -> None:
    rows, _ = rows_of_slots(trie, DEPTH + 1)
    header, title = ["slot", "parent", "action", "mass"], f"Stored: the nodes of depth {DEPTH + 1}"
    show(axes, title, header, rows, [[VISITED] * 4] * len(rows))


def read(axes: Axes, trie: Trie, leaves: Leaves) -> None:
    rows, slots = rows_of_slots(trie, DEPTH)
    children = trie_ops.read_children(trie, DEPTH, torch.tensor([slots]), leaves.filled)
    mass, child = children.log_mass[0].exp(), children.slot[0]
    cells = [[f"{value:.3f}" if value > 0 else "" for value in row] for row in mass[:, 1:].tolist()]
    colours = [[VISITED if slot != trie_ops.NO_NODE else "white" for slot in row] for row in child[:, 1:].tolist()]
    header = ["slot", *(f"action {action}" for action in range(1, NODES))]
    named = [[row[0], *own] for row, own in zip(rows, cells, strict=True)]
    title = f"Read: the masses of the children of the nodes of depth {DEPTH}"
    show(axes, title, header, named, [["white", *own] for own in colours])


def evaluated(axes: Axes, trie: Trie) -> None:
    depth = DEPTH + 1
    rows, slots = rows_of_slots(trie, depth)
    prefixes = [prefix_of(trie, depth, slot) for slot in slots]
    states = [(prefix[-1], tuple(sorted(set(range(1, NODES)) - set(prefix)))) for prefix in prefixes]
    cells, colours = [], []
    for slot, prefix, state in zip(slots, prefixes, states, strict=True):
        first = slots[states.index(state)]
        left = ", ".join(map(str, state[1]))
        asked = "the network" if first == slot else f"slot {first}"
        cells.append([str(slot), " ".join(map(str, prefix)), f"in {state[0]}, left {left}", asked])
        colours.append([SHARED if states.count(state) > 1 else "white"] * 4)
    show(axes, f"Evaluated once: the states of depth {depth}", ["slot", "way", "state", "asked"], cells, colours)


def main() -> None:
    trie, leaves = after_a_round()
    figure = Figure(figsize=(11, 1.5), layout="constrained")
    first, second, third = figure.subplots(1, 3, width_ratios=[2, 3, 3])
    stored(first, trie)
    read(second, trie, leaves)
    evaluated(third, trie)
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
