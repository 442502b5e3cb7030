"""Draws docs/figures/solution.svg: how a policy builds a tour, decision by decision.

    python -m docs.figures.solution

The policy is the shipped `tsp20`, the instance a random one of 20 nodes.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gumbeldore.evaluation.loading import load_policy
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search

OUT = Path(__file__).with_suffix(".svg")
SEED = 12
MOMENTS = (1, 7, 13, 19)  # decisions made before each panel; the last one shows the whole tour
DONE, LIKELY, TEXT, BOX = "tab:blue", "tab:orange", "#1f2933", "#eef2f7"


def draw() -> Figure:
    loaded = load_policy("tsp20")
    instance = loaded.problem.generate(1, torch.Generator().manual_seed(SEED))
    coords = instance.coords[0]
    with torch.no_grad():
        (actions,) = search(loaded.problem, loaded.policy, instance, methods.Greedy()).best()[0]
    figure = Figure(figsize=(9.6, 2.7), facecolor=BOX, layout="constrained")
    for axes, step in zip(figure.subplots(1, len(MOMENTS)), MOMENTS, strict=True):
        state = loaded.problem.replay(instance, actions[None, :step])
        legal = loaded.problem.mask(instance, state)[0]
        with torch.no_grad():
            logits = loaded.policy(loaded.policy.encode(instance), state)[0]
        finished = step == len(actions)
        probabilities = None if finished else logits.masked_fill(~legal, -torch.inf).softmax(0)
        _panel(axes, coords, [0, *actions[:step].tolist(), *([0] if finished else [])], probabilities)
    return figure


def _panel(axes: Axes, coords: Tensor, path: list[int], probabilities: Tensor | None) -> None:
    """The nodes, the tour so far, and circles as large as the next nodes are likely."""
    axes.plot(*coords[path].T.tolist(), color=DONE, linewidth=1.8, zorder=1)
    axes.scatter(*coords.T.tolist(), s=14, color=TEXT, zorder=3)
    axes.scatter(*coords[path[:1]].T.tolist(), s=60, marker="s", color=DONE, zorder=2)
    if probabilities is None:
        title = "the tour"
    else:
        axes.scatter(*coords.T.tolist(), s=(probabilities * 600).tolist(), color=LIKELY, alpha=0.6, zorder=2)
        title = f"{len(path) - 1} of {len(coords) - 1}: best {probabilities.max():.0%}"
    axes.set_title(title, fontsize=10, color=TEXT)
    axes.margins(0.12)  # room for the circles
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.set_facecolor(BOX)
    for spine in axes.spines.values():
        spine.set_visible(False)


if __name__ == "__main__":
    matplotlib.rcParams["svg.hashsalt"] = "solution"
    draw().savefig(OUT, metadata={"Date": None})
