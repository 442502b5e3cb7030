"""Draws docs/figures/races.png, and prints its numbers: rewards that races look at, and errors, against delta.

    python -m docs.figures.races

The data are synthetic [MAB]: there is no policy and there are no instances, so no study can draw this figure. Every
repetition draws new populations: arms whose rewards are independent draws of a distribution with mean 0 and variance 1
(normal, uniform, or log-normal with sigma 1 of the logarithm), moved by an arm's mean, which is drawn from a normal
distribution of deviation `spread`. The smaller the spread, the closer the best two arms. The range that two of the
algorithms need is the true one of the population.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib
import torch
from matplotlib.figure import Figure
from torch import Tensor

from gumbeldore.races.bounds import EmpiricalBernsteinSerfling, Normal
from gumbeldore.races.lil_ucb import lil_ucb
from gumbeldore.races.outcome import Identify
from gumbeldore.races.racing import race
from gumbeldore.reporting.charts import COLOURS, STYLE
from gumbeldore.seeding import generator

OUT = Path(__file__).with_suffix(".png")
ARMS, POPULATION, REPETITIONS = 10, 100_000, 20
DELTAS = (0.01, 0.05, 0.2, 0.5)
SPREADS = {0.1: "-", 0.01: "--"}  # and their lines
BATCH = 500  # rewards that lil'UCB looks at together


def normal(shape: tuple[int, int], random: torch.Generator) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=random)


def uniform(shape: tuple[int, int], random: torch.Generator) -> Tensor:
    return (torch.rand(shape, dtype=torch.float64, generator=random) - 0.5) * 12**0.5


def log_normal(shape: tuple[int, int], random: torch.Generator) -> Tensor:
    half, one = torch.tensor([0.5, 1.0], dtype=torch.float64).exp()
    return (normal(shape, random).exp() - half) / (half * (one - 1).sqrt())


DISTRIBUTIONS: dict[str, Callable[[tuple[int, int], torch.Generator], Tensor]] = {
    "normal": normal,
    "uniform": uniform,
    "log-normal": log_normal,
}


def algorithms(table: Tensor) -> dict[str, Identify]:
    """The algorithms by name, for rewards [D, N]."""
    reward_range = float((table.amax(dim=1) - table.amin(dim=1)).max())
    return {
        "race, empirical Bernstein-Serfling": partial(race, bound=EmpiricalBernsteinSerfling(reward_range)),
        "race, normal": partial(race, bound=Normal()),
        "lil'UCB": partial(lil_ucb, reward_range=reward_range, batch=BATCH),
    }


class Point(NamedTuple):
    """What all repetitions of one algorithm came to, for one distribution, spread and delta."""

    share: float  # of the rewards
    error: float  # share of the repetitions with another arm than the best


def measure(distribution: str, spread: float, population: int, repetitions: int) -> dict[str, list[Point]]:
    """For every algorithm a point of each delta."""
    seen: dict[str, list[list[tuple[float, bool]]]] = {}
    for repetition in range(repetitions):
        random = generator(0, "races", distribution, repetition)
        table = DISTRIBUTIONS[distribution]((ARMS, population), random)
        table += spread * torch.randn(ARMS, 1, dtype=torch.float64, generator=random)
        best = int(table.mean(dim=1).argmax())
        for name, identify in algorithms(table).items():
            for place, delta in enumerate(DELTAS):
                order = generator(0, "order", distribution, repetition)
                outcome = identify(lambda arm, at: table[arm, at], ARMS, population, delta, generator=order)  # noqa: B023
                points = seen.setdefault(name, [[] for _ in DELTAS])
                points[place].append((outcome.total / table.numel(), outcome.arm != best))
    return {
        name: [Point(*(sum(column) / repetitions for column in zip(*point, strict=True))) for point in points]
        for name, points in seen.items()
    }


def picture(found: dict[tuple[str, float], dict[str, list[Point]]]) -> Figure:
    """Shares above, errors below, a column per distribution; one line style per spread."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        rows = figure.subplots(2, len(DISTRIBUTIONS), sharex=True, sharey="row")
        for column, distribution in enumerate(DISTRIBUTIONS):
            shares, errors = rows[0][column], rows[1][column]
            for spread, style in SPREADS.items():
                for (name, points), colour in zip(found[distribution, spread].items(), COLOURS, strict=False):
                    label = f"{name}; spread {spread:g}" if column == 0 else None
                    line = {"color": colour, "linestyle": style, "marker": "."}
                    shares.plot(DELTAS, [point.share for point in points], label=label, **line)
                    errors.plot(DELTAS, [point.error for point in points], **line)
            errors.plot(DELTAS, DELTAS, color="gray", linewidth=0.8, label="delta" if column == 0 else None)
            shares.set(title=distribution, xscale="log", ylim=(0, 1.02))
            errors.set(xlabel="delta")
        rows[0][0].set(ylabel="share of the rewards")
        rows[1][0].set(ylabel="error")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def main(population: int = POPULATION, repetitions: int = REPETITIONS, out: Path = OUT) -> None:
    print(f"{ARMS} arms, {population} rewards each, {repetitions} repetitions: share of the rewards (error)")
    header = f"{'spread':>7} {'algorithm':36}" + "".join(f"{f'delta {delta:g}':>16}" for delta in DELTAS)
    found = {}
    for distribution in DISTRIBUTIONS:
        print(f"{distribution}\n{header}")
        for spread in SPREADS:
            points = measure(distribution, spread, population, repetitions)
            found[distribution, spread] = points
            for name, row in points.items():
                figures = "".join(f"{point.share:9.1%} ({point.error:4.0%})" for point in row)
                print(f"{spread:7g} {name:36}{figures}", flush=True)
    picture(found).savefig(out, dpi=110)


if __name__ == "__main__":
    main()
