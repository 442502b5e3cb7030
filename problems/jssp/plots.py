"""Pictures of schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from problems.common.panels import panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_INCHES = 5.0  # width
BAR_INCHES = 0.28  # height of a machine's row
LABELLED_JOBS = 20  # with more, colours repeat too closely and numbers do not fit
INK = "#101010"  # on light bars; not black, which a page in dark colours may turn to white
DIGIT_INCHES = 0.09  # width of a digit in a bar, with some air


def plot_schedules(
    times: Tensor, machines: Tensor, start: Tensor, titles: list[str], first: Sequence[int] = ()
) -> Figure:
    """A figure with one Gantt chart per schedule: machines from top to bottom, time from left to right.

    Every job has its colour; up to 20 jobs, its number stands in all bars that are wide enough.

    Arguments:
        times, machines, start: [n, J, M] processing time, machine and start of each operation, in any unit of time;
            every panel has its own scale.
        titles: n lines, each written above its panel.
        first: n numbers of the first machine and the first job; none: 0
    """
    height = 1.0 + BAR_INCHES * times.shape[2]
    figure, axes = panels(titles, PANEL_INCHES, height, times, machines, start)
    for place, panel in enumerate(axes):
        number = first[place] if first else 0
        _draw(panel, times[place].cpu(), machines[place].cpu(), start[place].cpu(), number)
    return figure


def _draw(axes: Axes, times: Tensor, machines: Tensor, start: Tensor, first: int) -> None:
    """One Gantt chart of operations [J, M], with the number `first` for the first machine and the first job."""
    num_jobs, num_machines = times.shape
    makespan = max(float((start + times).max()), 1e-9)  # a scale is needed even if nothing takes time
    inch = makespan / (PANEL_INCHES - 0.8)  # in units of time; the rest is the margin with the labels
    for job, color in enumerate(_colors(num_jobs)):
        begins, takes, where = start[job].tolist(), times[job].tolist(), machines[job].tolist()
        axes.barh(where, takes, left=begins, height=0.8, color=color, edgecolor="white", linewidth=0.3)
        if num_jobs > LABELLED_JOBS:
            continue
        dark = sum(weight * part for weight, part in zip((0.3, 0.59, 0.11), color, strict=False)) < 0.6
        for begin, time, machine in zip(begins, takes, where, strict=True):
            if time >= DIGIT_INCHES * len(str(job + first)) * inch:
                centre = (begin + time / 2, machine)
                axes.text(*centre, job + first, size=8, color="white" if dark else INK, ha="center", va="center")
    label = "time (numbers in bars: jobs)" if num_jobs <= LABELLED_JOBS else "time"
    axes.set(xlabel=label, ylabel="machine", xlim=(0, makespan), ylim=(num_machines - 0.5, -0.5))
    axes.set_yticks(range(num_machines), [str(machine + first) for machine in range(num_machines)])


def _colors(num_jobs: int) -> list[tuple[float, ...]]:
    """A colour per job; those of up to 20 jobs are told apart best."""
    from matplotlib import colormaps

    if num_jobs <= LABELLED_JOBS:
        palette = colormaps["tab10" if num_jobs <= 10 else "tab20"]
        return [palette(job) for job in range(num_jobs)]
    return [colormaps["turbo"](job / (num_jobs - 1)) for job in range(num_jobs)]
