"""How good solutions are, and how different from each other [SBS, figure 2, on the edges of solutions]."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import repeated, take
from gumbeldore.benchmark import Benchmark, gaps_to
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import fold
from gumbeldore.studies import tables
from gumbeldore.training.true_costs import SampledSolutions, true_costs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Point(NamedTuple):
    """A search: means over the instances and repetitions."""

    curve: str
    setting: str  # what differs between the points of a curve
    solutions: float  # per instance
    diversity: float  # share of different edges among those of all solutions of an instance
    lowest: float  # gap of the best solution of an instance, or cost where references are missing
    mean: float  # of all its solutions
    highest: float


def measure(
    curve: str,
    setting: str,
    config: Method,
    pool: SearchPool,
    benchmarks: list[Benchmark],
    repetitions: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Point:
    """Search all instances, several times with other random numbers.

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    relative = have_gaps(benchmarks)
    found: list[tuple[float, ...]] = []
    for repetition in range(repetitions):
        for place, benchmark in enumerate(benchmarks):
            count = len(benchmark.names)
            keys = fold(int(fold(seed, "diversity", repetition)), place, torch.arange(count))
            with instance_errors(benchmark, keys):
                for _, chunk, sampled in pool.map_all(benchmark.instances, keys, [config], read=SampledSolutions.of):
                    costs = true_costs(benchmark, chunk, sampled)
                    if relative:
                        costs = gaps_to(benchmark.references[chunk, None], costs)
                    edges = edges_of(pool, benchmark, chunk, sampled)
                    share = distinct_share(edges, sampled.valid)
                    number = sampled.valid.sum(dim=1)
                    low = costs.masked_fill(~sampled.valid, torch.inf).amin(dim=1)
                    high = costs.masked_fill(~sampled.valid, -torch.inf).amax(dim=1)
                    mean = costs.masked_fill(~sampled.valid, 0.0).sum(dim=1) / number
                    found += torch.stack([number.double(), share, low, mean, high], dim=1).tolist()
                    progress(chunk.stop - chunk.start)
    return Point(curve, setting, *map(statistics.fmean, zip(*found, strict=True)))


def edges_of(pool: SearchPool, benchmark: Benchmark, chunk: slice, sampled: SampledSolutions) -> Tensor:
    """The edges of all solutions of a chunk, [B, L, E]."""
    batch, per_instance, horizon = sampled.actions.shape
    instances = repeated(take(benchmark.instances, chunk), per_instance)
    return pool.problem.edges(instances, sampled.actions.reshape(-1, horizon)).view(batch, per_instance, -1)


def distinct_share(edges: Tensor, valid: Tensor) -> Tensor:
    """The number of different edges of each instance, as a share of all edges of its solutions, [B] float64.

    Arguments:
        edges: [B, L, E] int64 of each solution; below 0: none
        valid: which entries are solutions [B, L]
    """
    codes = edges.masked_fill(~valid[..., None], -1).flatten(1).sort(dim=1).values
    real = codes >= 0
    first = torch.ones_like(real)
    first[:, 1:] = codes[:, 1:] != codes[:, :-1]
    return (first & real).sum(dim=1).double() / real.sum(dim=1)


def rows(found: list[Point], gaps: bool) -> tuple[list[str], list[list[str]]]:
    """The table: a row for each point."""
    form = ".2%" if gaps else ".4f"
    lines = [
        [", ".join(filter(None, (x.curve, x.setting))), f"{x.diversity:.1%}"]
        + [f"{value:{form}}" for value in (x.lowest, x.mean, x.highest)]
        for x in found
    ]
    return ["gap" if gaps else "cost", "different edges", "lowest", "mean", "highest"], lines


def write(out_dir: Path, found: list[Point], gaps: bool, about: dict[str, Any]) -> None:
    """study.json, study.csv and study.png."""
    lines = [point._asdict() for point in found]
    tables.write(out_dir, {"quality": "gap" if gaps else "cost", **about, "points": lines}, lines)
    tables.draw(out_dir, plot(found, gaps, tables.title_of(about)))


def plot(found: list[Point], gaps: bool, title: str) -> Figure:
    """Lowest, mean and highest cost over the diversity, a line per search."""
    from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    every = figure.subplots(1, 3, sharex=True)
    for axes, kind in zip(every, ("lowest", "mean", "highest"), strict=True):
        for number, curve in enumerate(dict.fromkeys(point.curve for point in found)):
            mine = [x for x in found if x.curve == curve]
            x, y = [x.diversity for x in mine], [getattr(x, kind) for x in mine]
            axes.plot(x, y, marker="os^vDPX*"[number % 8], markersize=5, label=curve)
        axes.set(title=f"{kind} {'gap' if gaps else 'cost'}", xlabel="different edges")
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        if gaps:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(alpha=0.3)
    figure.suptitle(title, parse_math=False)
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    return figure
