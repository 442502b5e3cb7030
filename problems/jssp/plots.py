"""Pictures of schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gumbeldore.batches import to
from problems.common.panels import panels
from problems.formats.job_shop import NO_OPERATION
from problems.jssp.originals import Original

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 1000  # machines of a chart; of more, those are shown that have operations
PANEL_INCHES = 5.0  # width of a schedule among others
PAGE_INCHES = 10.0  # width of a schedule alone
BAR_INCHES = 0.28  # height of a machine's row
LARGEST_PALETTE = 20  # jobs that colours of a palette tell apart
INK = "#101010"  # on light bars; not black, which a page in dark colours may turn to white
DIGIT_INCHES = 0.09  # width of a digit in a bar, with some air
NOT_FREE = "#d0d0d0"


def plot_schedules(original: Original, start: Tensor, titles: list[str]) -> Figure:
    """A figure with one Gantt chart per schedule: machines from top to bottom, time from left to right.

    Every job has its colour, and its number stands in all bars that are wide enough. Fixed operations are hatched. A
    machine is grey until its release; a triangle in a job's colour stands at the job's release.

    Arguments:
        original: n instances, in any unit of time; every panel has its own scale
        start: [n, J, O] start of each operation
        titles: n lines, each written above its panel
    """
    original = to(original, "cpu")
    machines = torch.arange(original.machine_release.shape[1])
    if len(machines) > MOST_ROWS:
        machines = original.machines[original.there].unique()
        rows = torch.searchsorted(machines, original.machines).where(original.there, NO_OPERATION)
        original = original._replace(machines=rows, machine_release=original.machine_release[:, machines])
    height = 1.0 + BAR_INCHES * len(machines)
    width = PAGE_INCHES if len(titles) == 1 else PANEL_INCHES
    figure, axes = panels(titles, width, height, start)
    for place, panel in enumerate(axes):
        _draw(panel, Original(*(field[place] for field in original)), start[place].cpu(), machines, width)
    return figure


def _draw(axes: Axes, shop: Original, start: Tensor, machines: Tensor, inches: float) -> None:
    """One Gantt chart of operations [J, O] on a panel of so many inches; its rows are machines [m]."""
    num_jobs, num_machines, first = len(shop.release), len(machines), int(shop.first)
    end, there = start + shop.times, shop.there
    begin, makespan = min(0.0, float(start.min())), max(float(end.max()), 1e-9)  # a scale is needed in any case
    inch = (makespan - begin) / (inches - 0.8)  # in units of time; the rest is the margin with the labels
    late = shop.machine_release.nonzero().flatten()
    axes.barh(late.tolist(), shop.machine_release[late].tolist(), height=0.95, color=NOT_FREE)
    for job, color in enumerate(_colors(num_jobs)):
        fields = start, shop.times, shop.machines, shop.is_fixed
        begins, takes, where, fixed = (field[job][there[job]].tolist() for field in fields)
        hatches = ["////" if each else "" for each in fixed]
        axes.barh(where, takes, left=begins, height=0.8, color=color, edgecolor="white", linewidth=0.3, hatch=hatches)
        if 0 < shop.release[job] <= makespan:
            axes.plot(float(shop.release[job]), -0.45, marker="v", color=color, markersize=5, clip_on=False)
        dark = sum(weight * part for weight, part in zip((0.3, 0.59, 0.11), color, strict=False)) < 0.6
        for since, time, machine in zip(begins, takes, where, strict=True):
            if time >= DIGIT_INCHES * len(str(job + first)) * inch:
                centre = (since + time / 2, machine)
                axes.text(*centre, job + first, size=8, color="white" if dark else INK, ha="center", va="center")
    axes.set(xlabel="time (numbers in bars: jobs)" if axes.texts else "time", ylabel="machine")
    axes.set(xlim=(begin, makespan), ylim=(num_machines - 0.5, -0.5))
    axes.set_yticks(range(num_machines), [str(machine + first) for machine in machines.tolist()])


def _colors(num_jobs: int) -> list[tuple[float, ...]]:
    """A colour per job; those of up to 20 jobs are told apart best."""
    from matplotlib import colormaps

    if num_jobs <= LARGEST_PALETTE:
        palette = colormaps["tab10" if num_jobs <= 10 else "tab20"]
        return [palette(job) for job in range(num_jobs)]
    return [colormaps["turbo"](job / (num_jobs - 1)) for job in range(num_jobs)]
