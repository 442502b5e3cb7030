"""Figures of what the methods of an evaluation have sampled, as markup that a page can hold."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Iterator, Sized
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from gumbeldore.evaluation.solved_sets import SolvedSet, have_gaps
from gumbeldore.evaluation.tables import Results
from gumbeldore.instance_set import InstanceSet, count_of, mean_reference

COLOURS = ("#2b83ba", "#e08214", "#1b9e77", "#c75a9b", "#6a8fd8", "#d3492f", "#8a8a1e", "#8c6bb1")  # on white and black
STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"}
INCHES = 4.4  # width
BINS = 40
POINTS = 60  # of a curve
LARGEST_SVG = 400_000  # characters; a busier picture becomes pixels


def quality(results: Results, instance_sets: list[InstanceSet]) -> Figure | None:
    """Mean of the best so far against the number of samples, a curve for each method that samples; None if none does.

    The mean gap, or the mean cost where references are missing.
    """
    sampled = {name: solved for name, solved in results.items() if _longest(solved) > 1}
    if not sampled:
        return None
    relative = have_gaps(instance_sets)
    figure, axes = _axes(3.2)
    for (name, solved), colour in zip(sampled.items(), _colours(sampled), strict=True):
        counts, means = best_so_far(solved, instance_sets if relative else None)
        axes.plot(counts, means, color=colour, marker="." if len(counts) < 8 else None, label=name)
    axes.set(xscale="log", xlabel="samples per instance", ylabel="mean gap" if relative else "mean cost")
    longest = max(map(_longest, sampled.values()))
    axes.set_xticks([n * 10**power for power in range(7) for n in (1, 2, 5) if n * 10**power <= longest])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.minorticks_off()
    if relative:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(alpha=0.25)
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return figure


def best_so_far(solved: list[SolvedSet], instance_sets: list[InstanceSet] | None) -> tuple[list[int], list[float]]:
    """Numbers of samples k, and the mean over all instances of the gap of the best of the first k samples.

    Of an instance with fewer than k samples, all count.

    Arguments:
        instance_sets: that have the references; None: the mean is of the costs
    """
    longest = _longest(solved)
    scale = None if instance_sets is None else mean_reference(instance_sets)
    counts = sorted({round(longest ** (place / (POINTS - 1))) for place in range(POINTS)})
    totals = [0.0] * len(counts)
    for number, part in enumerate(solved):
        samples = part.samples.nan_to_num(nan=math.inf)
        best, before = samples[:, 0].double(), 1
        for place, count in enumerate(counts):
            if before < min(count, samples.shape[1]):
                best = torch.minimum(best, samples[:, before:count].amin(dim=1).double())
            before = count
            shown = best if instance_sets is None else instance_sets[number].gaps(best, scale=scale)
            totals[place] += float(shown.sum())
    instances = sum(len(part.costs) for part in solved)
    return counts, [total / instances for total in totals]


def to_best_costs(results: Results, instance_sets: list[InstanceSet]) -> list[InstanceSet]:
    """The instance sets with the lowest costs that a method has found as references."""
    found = []
    for instance_set, *solved in zip(instance_sets, *results.values(), strict=True):
        costs = torch.stack([part.costs.nan_to_num(nan=math.inf) for part in solved])
        found.append(instance_set._replace(references=costs.amin(dim=0)))
    return found


def distribution(results: Results, instance_sets: list[InstanceSet]) -> tuple[Figure, str] | None:
    """A histogram of the costs of each method that samples, and what it shows; None if no method does.

    Of several instances the costs are compared with the reference, or with the best found by any method.
    """
    alone = count_of(instance_sets) == 1
    known = have_gaps(instance_sets)
    bases = instance_sets if known else to_best_costs(results, instance_sets)
    scale = mean_reference(bases)
    values = {}
    for name, solved in results.items():
        if _longest(solved) == 1:
            continue
        shown = [
            part.samples.double() if alone else base.gaps(part.samples, scale=scale)
            for part, base in zip(solved, bases, strict=True)
        ]
        flat = torch.cat([part.flatten() for part in shown])
        values[name] = flat[flat.isfinite()].numpy()  # not of an empty place, nor relative to a cost of 0
    if not values or not all(map(len, values.values())):
        return None
    pooled = np.concatenate(list(values.values()))
    edges = np.histogram_bin_edges(pooled, bins=min(BINS, len(np.unique(pooled))))
    figure, *panels = _axes(0.8 + 0.8 * len(values), len(values))
    for axes, (name, each), colour in zip(panels, values.items(), _colours(values), strict=True):
        share = np.histogram(each, edges)[0] / len(each)
        axes.stairs(share, edges, fill=True, color=colour)
        axes.axvline(each.mean(), color="black", linewidth=1, linestyle=":")
        axes.set_title(f"{name}: {len(each):,} solution{'s' if len(each) > 1 else ''}", loc="left", fontsize=9)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.locator_params(axis="y", nbins=2)
    if alone:
        return figure, "Costs of all solutions found"
    panels[-1].xaxis.set_major_formatter(PercentFormatter(1))
    compared = "the reference" if known else "the best found here for the same instance"
    return figure, f"Costs of all solutions found, relative to {compared}"


def markup(figure: Figure) -> str:
    """The figure as SVG in the colour of the text around it, or as a PNG on white if that would be large.

    Black becomes `currentColor`: as a line by name, as a fill (which matplotlib leaves out) from the page's style.
    """
    with matplotlib.rc_context(STYLE):
        text = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, bbox_inches="tight", metadata=nothing)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace("#000000", "currentColor")
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)  # of groups: the same in all figures of a page
    if len(svg) <= LARGEST_SVG:
        return svg
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=150, bbox_inches="tight")
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(pixels.getvalue()).decode()}">'


def _axes(height: float, panels: int = 1) -> tuple:
    """A figure and its panels, one below the other."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(INCHES, height), layout="constrained")
        return figure, *np.atleast_1d(figure.subplots(panels, sharex=True))


def _colours(results: Sized) -> Iterator[str]:
    return (COLOURS[place % len(COLOURS)] for place in range(len(results)))


def _longest(solved: list[SolvedSet]) -> int:
    """The largest number of samples of an instance."""
    return max(part.samples.shape[1] for part in solved)
