"""Share of the rewards that each algorithm of races looks at, and its error, against delta [MAB, synthetic data].

Every repetition draws new populations: `arms` arms whose `population` rewards are independent draws of a distribution
with mean 0 and variance 1 (normal, uniform, or log-normal with sigma 1 of the logarithm), moved by an arm's mean, which
is drawn from a normal distribution of deviation `spread`. The smaller the spread, the closer the best two arms. The
range that two of the algorithms need is the true one of the population. lil'UCB looks at `batch` rewards at a time.
`out` is a picture.
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

from benchmarks.machine import check_counts, numbers
from gumbeldore.races.bounds import EmpiricalBernsteinSerfling, Normal
from gumbeldore.races.lil_ucb import lil_ucb
from gumbeldore.races.outcome import Identify
from gumbeldore.races.racing import race
from gumbeldore.reporting.charts import COLOURS, STYLE
from gumbeldore.seeding import generator

LINES = ("-", "--", ":", "-.")  # of the spreads
DEFAULTS = {"arms": 10, "population": 100_000, "repetitions": 20, "deltas": "0.01,0.05,0.2,0.5"} | {
    "spreads": "0.1,0.01",
    "batch": 500,
    "out": "",
}


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


def algorithms(table: Tensor, batch: int) -> dict[str, Identify]:
    """The algorithms by name, for rewards [D, N]."""
    reward_range = float((table.amax(dim=1) - table.amin(dim=1)).max())
    return {
        "race, empirical Bernstein-Serfling": partial(race, bound=EmpiricalBernsteinSerfling(reward_range)),
        "race, normal": partial(race, bound=Normal()),
        "lil'UCB": partial(lil_ucb, reward_range=reward_range, batch=batch),
    }


class Point(NamedTuple):
    """What all repetitions of one algorithm came to, for one distribution, spread and delta."""

    share: float  # of the rewards
    error: float  # share of the repetitions with another arm than the best


def measure(
    distribution: str, spread: float, arms: int, population: int, repetitions: int, deltas: list[float], batch: int
) -> dict[str, list[Point]]:
    """For every algorithm a point of each delta."""
    seen: dict[str, list[list[tuple[float, bool]]]] = {}
    for repetition in range(repetitions):
        random = generator(0, "races", distribution, repetition)
        table = DISTRIBUTIONS[distribution]((arms, population), random)
        table += spread * torch.randn(arms, 1, dtype=torch.float64, generator=random)
        best = int(table.mean(dim=1).argmax())
        for name, identify in algorithms(table, batch).items():
            for place, delta in enumerate(deltas):
                order = generator(0, "order", distribution, repetition)
                outcome = identify(lambda arm, at: table[arm, at], arms, population, delta, generator=order)  # noqa: B023
                points = seen.setdefault(name, [[] for _ in deltas])
                points[place].append((outcome.total / table.numel(), outcome.arm != best))
    return {
        name: [Point(*(sum(column) / repetitions for column in zip(*point, strict=True))) for point in points]
        for name, points in seen.items()
    }


def picture(
    found: dict[tuple[str, float], dict[str, list[Point]]], deltas: list[float], spreads: list[float]
) -> Figure:
    """Shares above, errors below, a column per distribution; one line style per spread."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8, 4.6), layout="constrained")
        rows = figure.subplots(2, len(DISTRIBUTIONS), sharex=True, sharey="row")
        for column, distribution in enumerate(DISTRIBUTIONS):
            shares, errors = rows[0][column], rows[1][column]
            for spread, style in zip(spreads, LINES, strict=False):
                for (name, points), colour in zip(found[distribution, spread].items(), COLOURS, strict=False):
                    label = f"{name}; spread {spread:g}" if column == 0 else None
                    line = {"color": colour, "linestyle": style, "marker": "."}
                    shares.plot(deltas, [point.share for point in points], label=label, **line)
                    errors.plot(deltas, [point.error for point in points], **line)
            errors.plot(deltas, deltas, color="gray", linewidth=0.8, label="delta" if column == 0 else None)
            shares.set(title=distribution, xscale="log", ylim=(0, 1.02))
            errors.set(xlabel="delta")
        rows[0][0].set(ylabel="share of the rewards")
        rows[1][0].set(ylabel="error")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def main(arms, population, repetitions, deltas, spreads, batch, out) -> None:
    check_counts(arms=arms, population=population, repetitions=repetitions, batch=batch)
    deltas, spreads = numbers("deltas", deltas, float), numbers("spreads", spreads, float)
    if out and (Path(out).suffix != ".png" or len(spreads) > len(LINES)):
        raise ValueError(f"out must be a .png, of at most {len(LINES)} spreads, got {out}")
    print(f"{arms} arms, {population} rewards each, {repetitions} repetitions: share of the rewards (error)")
    header = f"{'spread':>7} {'algorithm':36}" + "".join(f"{f'delta {delta:g}':>16}" for delta in deltas)
    found = {}
    for distribution in DISTRIBUTIONS:
        print(f"{distribution}\n{header}")
        for spread in spreads:
            points = measure(distribution, spread, arms, population, repetitions, deltas, batch)
            found[distribution, spread] = points
            for name, row in points.items():
                figures = "".join(f"{point.share:9.1%} ({point.error:4.0%})" for point in row)
                print(f"{spread:7g} {name:36}{figures}", flush=True)
    if out:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        picture(found, deltas, spreads).savefig(out, dpi=110)
