"""Draws docs/figures/over_time.png: six studies with axis=seconds side by side (docs/results.md has their commands).

    python -m docs.figures.over_time runs/over_time

The folder holds the folders of the studies.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from gumbeldore.reporting.charts import COLOURS, STYLE
from gumbeldore.studies.curves import CurvePoint, by_curve

OUT = Path(__file__).with_suffix(".png")
ROWS = (("tsp100", "cvrp200", "jssp15x15"), ("tsp1000", "cvrp500", "jssp50x20"))
METHODS = ("solver", "gumbeldore", "reconstruct", "tasar")  # a colour each, the same in every panel


def panel(axes: Axes, study: dict) -> None:
    """A curve for each method of a study, with the standard errors of its repetitions as bars."""
    for name, curve in by_curve([CurvePoint(**point) for point in study["points"]]).items():
        seconds, gaps = [point.seconds for point in curve], [point.quality for point in curve]
        bars = [point.error or 0.0 for point in curve]
        colour = COLOURS[METHODS.index(name)]
        axes.errorbar(seconds, gaps, bars, label=name, color=colour, marker="o", markersize=4, capsize=2)
    axes.set(xscale="log", xlabel="seconds per instance", ylabel=f"mean gap to: {study['reference']}")
    axes.set_title(f"{study['instances']} ({study['num_instances']}), {Path(study['checkpoint']).parent.name}")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def draw(folder: Path) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11.0, 6.4), layout="constrained")
        for line, names in zip(figure.subplots(len(ROWS), len(ROWS[0])), ROWS, strict=True):
            for axes, name in zip(line, names, strict=True):
                panel(axes, json.loads((folder / name / "study.json").read_text()))
    return figure


if __name__ == "__main__":
    draw(Path(sys.argv[1])).savefig(OUT, dpi=110)
