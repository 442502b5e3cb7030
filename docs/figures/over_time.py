"""Draws docs/figures/over_time.png: two studies of each problem with axis=seconds (docs/results.md has their commands).

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

from gumbeldore.reporting.charts import STYLE
from gumbeldore.studies.curves import CurvePoint, Curves

OUT = Path(__file__).with_suffix(".png")
ROWS = (("tsp100", "tsp1000"), ("cvrp200", "cvrp500"), ("jssp15x15", "jssp50x20"), ("fjsp10x5", "fjsp20x5"))


def panel(axes: Axes, study: dict) -> None:
    """The curves of a study, as its own picture has them."""
    Curves(axis="seconds").draw(axes, [CurvePoint(**point) for point in study["points"]], gaps=True)
    axes.set_title(f"{study['instances']} ({study['num_instances']}), {Path(study['checkpoint']).parent.name}")
    axes.set_ylabel(f"mean gap to: {study['reference']}")
    axes.legend(frameon=False)


def draw(folder: Path) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 12.0), layout="constrained")
        for line, names in zip(figure.subplots(len(ROWS), len(ROWS[0])), ROWS, strict=True):
            for axes, name in zip(line, names, strict=True):
                panel(axes, json.loads((folder / name / "study.json").read_text()))
    return figure


if __name__ == "__main__":
    draw(Path(sys.argv[1])).savefig(OUT, dpi=110)
