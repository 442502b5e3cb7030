"""Draws docs/figures/method.svg: one epoch of self-improvement as a loop.

    python -m docs.figures.method

The tours are those of a real search. The boxes have a colour of their own and all text is in them, so that the picture
can be read on light and on dark pages.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from docs.figures.trie import INSTANCE, WIDTH, Nearest
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.sampler.solutions import Solutions
from problems.tsp import TSP

OUT = Path(__file__).with_suffix(".svg")
NODES = INSTANCE.coords[0].tolist()
EXPERT, OTHER, TEXT, ARROW, BOX = "tab:orange", "tab:blue", "#1f2933", "#808890", "#eef2f7"
SIDE, GAP, HEIGHT = 2.9, 0.75, 3.1  # of a box, between two boxes
STEPS = {
    "Sample": "the best policy draws solutions\nof new random instances,\nwithout replacement",
    "Choose": "the best one becomes\nthe pseudo-expert\nof its instance",
    "Imitate": "the policy learns each\ndecision of the experts\n(cross-entropy)",
    "Validate": "greedily, on fixed instances:\na better policy replaces\nthe best policy",
}


def sampled() -> Solutions:
    """Different tours of one instance, with their lengths."""
    return search(TSP(5), Nearest(), INSTANCE, methods.WithoutReplacement(WIDTH, 1), torch.Generator().manual_seed(4))


def draw_tour(axes: Axes, left: float, bottom: float, size: float, tour: list[int], colour: str, decided: int) -> None:
    """A tour from node 0 in a square; of an unfinished one the decisions so far, and the next one dashed.

    Arguments:
        decided: edges to draw; that of the next decision follows if there is one
    """
    points = [(left + size * x, bottom + size * y) for x, y in NODES]
    walk = [points[node] for node in [0, *tour, 0]]
    axes.plot(*zip(*walk[: decided + 1], strict=True), color=colour, linewidth=1.8, zorder=3)
    if decided < len(walk) - 1:
        axes.plot(*zip(*walk[decided : decided + 2], strict=True), color=colour, linewidth=1.8, linestyle=":", zorder=3)
    axes.scatter(*zip(*points, strict=True), s=14, color=TEXT, zorder=4)


def draw_box(axes: Axes, number: int, title: str, text: str) -> float:
    """Returns the left edge of the box."""
    left = number * (SIDE + GAP)
    style = "round,pad=0,rounding_size=0.15"
    axes.add_patch(FancyBboxPatch((left, 0), SIDE, HEIGHT, boxstyle=style, facecolor=BOX, edgecolor=ARROW, zorder=1))
    middle = left + SIDE / 2
    axes.text(middle, HEIGHT - 0.3, title, color=TEXT, fontsize=12, fontweight="bold", ha="center", va="center")
    axes.text(middle, 0.52, text, color=TEXT, fontsize=8.5, ha="center", va="center", linespacing=1.25)
    return left


def draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: str = "arc3") -> None:
    style = {"arrowstyle": "-|>", "mutation_scale": 16, "linewidth": 2, "color": ARROW}
    axes.add_patch(FancyArrowPatch(start, end, connectionstyle=bend, shrinkA=3, shrinkB=3, **style))


def draw(axes: Axes, tours: list[list[int]], lengths: list[float]) -> None:
    lefts = [draw_box(axes, number, *step) for number, step in enumerate(STEPS.items())]
    expert = min(range(len(tours)), key=lengths.__getitem__)
    size, bottom = 0.85, 1.4
    for place, (tour, length) in enumerate(zip(tours, lengths, strict=True)):
        for box, colour in ((0, OTHER), (1, EXPERT if place == expert else "#b8c1cb")):
            left = lefts[box] + 0.1 + place * 0.93
            draw_tour(axes, left, bottom, size, tour, colour, len(NODES))
            axes.text(left + size / 2, bottom - 0.12, f"{length:.2f}", color=TEXT, fontsize=8, ha="center", va="center")
    for place in range(3):  # decisions that are learnt
        draw_tour(axes, lefts[2] + 0.1 + place * 0.93, bottom, size, tours[expert], EXPERT, place)
    draw_curve(axes, lefts[3] + 0.35, bottom - 0.1, SIDE - 0.7, 1.1)
    for left in lefts[1:]:
        draw_arrow(axes, (left - GAP, HEIGHT / 2), (left, HEIGHT / 2))
    middle = SIDE / 2
    draw_arrow(axes, (lefts[3] + middle, 0), (middle, 0), "bar,angle=180,fraction=-0.045")
    axes.set_xlim(-0.1, lefts[3] + SIDE + 0.1)
    axes.set_ylim(-0.75, HEIGHT + 0.1)
    axes.set_aspect("equal")
    axes.axis("off")


def draw_curve(axes: Axes, left: float, bottom: float, width: float, height: float) -> None:
    """The cost of the best policy, a sketch: it falls, and stays where an epoch brought nothing better."""
    costs = [1.0, 0.62, 0.62, 0.4, 0.28, 0.2, 0.2]
    x = [left + width * step / (len(costs) - 1) for step in range(len(costs))]
    axes.step(x, [bottom + height * cost for cost in costs], where="post", color=OTHER, linewidth=1.8, zorder=3)
    for ends in (((left, left), (bottom, bottom + height)), ((left, left + width), (bottom, bottom))):
        axes.plot(*ends, color=TEXT, linewidth=1, zorder=3)
    axes.text(left + 0.55, bottom + height, "cost", color=TEXT, fontsize=8, va="center")
    axes.text(left + width, bottom - 0.12, "epoch", color=TEXT, fontsize=8, ha="right", va="center")


def main(out: Path = OUT) -> None:
    found = sampled()
    figure = Figure(figsize=(11, 3.1))
    axes = figure.add_axes((0, 0, 1, 1))
    draw(axes, found.actions[0].tolist(), found.costs[0].tolist())
    with matplotlib.rc_context({"svg.hashsalt": "method"}):  # the same file each time
        figure.savefig(out, metadata={"Date": None}, transparent=True)


if __name__ == "__main__":
    main()
