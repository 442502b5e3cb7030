"""Quality against samples, evaluations or time [GD, figures 3 and 4]: the same search, allowed ever more of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gumbeldore.benchmark import Benchmark
from gumbeldore.evaluation.baseline import Baseline, solve_baseline
from gumbeldore.evaluation.benchmarks import results_of, solve_benchmark, summarise
from gumbeldore.evaluation.parts import BenchmarkResult, Parts
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Anytime, Method
from gumbeldore.seeding import fold
from gumbeldore.studies import tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LINES = ("-", "--", ":", "-.")
MARKERS = "os^vDPX*"


class CurvePoint(NamedTuple):
    """A search on all instances, repeated with other random numbers; numbers are means over the repetitions."""

    curve: str
    samples: int  # per instance, at most: beam width * rounds * equivalents; with a time limit those that were found
    quality: float  # mean gap of the instances, or their mean cost where references are missing
    error: float | None  # standard error of the quality; None of one repetition
    solutions: float  # per instance; fewer than the samples where an instance has no more
    evaluations: float  # of the network, per instance
    seconds: float  # per instance


def measure(
    curve: str,
    method: Method | Baseline,
    pool: SearchPool,
    benchmarks: list[Benchmark],
    repetitions: int,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
    parts: list[list[Parts]] | None = None,
) -> CurvePoint:
    """One point of a curve; all points of the same seed share the random numbers of their repetitions.

    Arguments:
        parts: by repetition and benchmark, what was found earlier
    """
    parts = parts or [[Parts() for _ in benchmarks] for _ in range(repetitions)]
    outcomes = []
    for repetition in range(repetitions):
        own = int(fold(seed, "repetition", repetition))
        pairs = zip(benchmarks, parts[repetition], strict=True)
        solved = [_solved(method, pool, benchmark, own, progress, found) for benchmark, found in pairs]
        outcomes.append(summarise(solved, benchmarks))
    qualities = [x.merit for x in outcomes]
    searches = sum(x.num_instances for x in outcomes)
    return CurvePoint(
        curve=curve,
        samples=_samples(method, pool.problem, benchmarks) or round(sum(x.solutions for x in outcomes) / searches),
        quality=statistics.fmean(qualities),
        error=statistics.stdev(qualities) / math.sqrt(repetitions) if repetitions > 1 else None,
        solutions=sum(x.solutions for x in outcomes) / searches,
        evaluations=sum(x.evaluations for x in outcomes) / searches,
        seconds=sum(x.seconds for x in outcomes) / searches,
    )


def _solved(
    method: Method | Baseline,
    pool: SearchPool,
    benchmark: Benchmark,
    seed: int,
    progress: Callable[[int], None],
    parts: Parts,
) -> BenchmarkResult:
    if isinstance(method, Method):
        return solve_benchmark(pool, benchmark, method, seed, progress, parts)
    solve_baseline(method, pool.problem, benchmark, progress, parts)
    (found,) = results_of("", [parts], [benchmark]).values()
    return found[0]


def _samples(method: Method | Baseline, problem: Problem, benchmarks: list[Benchmark]) -> int | None:
    """The most solutions per instance, a mean over all sizes; None where only a time limit bounds them."""
    if not isinstance(method, Method) or isinstance(method, Anytime):
        return None
    each = [method.most_solutions(problem.horizon(benchmark.instances)) for benchmark in benchmarks]
    counts = [len(benchmark.names) for benchmark in benchmarks]
    return round(sum(n * count for n, count in zip(each, counts, strict=True)) / sum(counts))


def by_curve(points: list[CurvePoint]) -> dict[str, list[CurvePoint]]:
    """The points of each curve."""
    return {name: [point for point in points if point.curve == name] for name in dict.fromkeys(x.curve for x in points)}


def shows_errors(points: list[CurvePoint], axis: str) -> bool:
    """Whether the table has the standard errors: beside more than four numbers of samples they do not fit."""
    return axis != "samples" or len({point.samples for point in points}) <= 4


def rows(points: list[CurvePoint], gaps: bool, axis: str = "samples") -> tuple[list[str], list[list[str]]]:
    """The table over samples: a row per curve, a column per number of samples. Over another axis: a row per point."""
    if axis != "samples":
        lines = [
            [x.curve, str(x.samples), f"{x.evaluations:,.0f}", f"{x.seconds:.3g}", _quality(x, gaps)] for x in points
        ]
        return ["curve", "samples", "evaluations", "seconds", "gap" if gaps else "cost"], lines
    samples, errors = sorted({point.samples for point in points}), shows_errors(points, axis)
    lines = []
    for name, curve in by_curve(points).items():
        shown = {x.samples: _quality(x, gaps) if errors else _mean(x, gaps) for x in curve}
        lines.append([name, *(shown.get(count, "") for count in samples)])
    return ["samples", *map(str, samples)], lines


def _mean(point: CurvePoint, gaps: bool) -> str:
    return f"{point.quality:{'.2%' if gaps else '.3f'}}"


def _quality(point: CurvePoint, gaps: bool) -> str:
    form = ".3%" if gaps else ".4f"
    return f"{point.quality:{form}}" + ("" if point.error is None else f" ± {point.error:{form}}")


def write(out_dir: Path, points: list[CurvePoint], gaps: bool, about: dict[str, Any]) -> None:
    """study.json, study.csv and study.png."""
    lines = [point._asdict() for point in points]
    tables.write(out_dir, {"quality": "mean gap" if gaps else "mean cost", **about, "points": lines}, lines)
    tables.draw(out_dir, plot(points, gaps, tables.title_of(about), about["axis"]))


def styles(names: list[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of curves that are named "method, setting=value, ..."."""
    methods = list(dict.fromkeys(name.split(", ")[0] for name in names))
    settings = list(dict.fromkeys(name.partition(", ")[2] for name in names))
    looks: dict[str, dict[str, Any]] = {}
    for name in names:
        method, _, setting = name.partition(", ")
        group, member = methods.index(method), settings.index(setting)
        colour, line = (group, member) if len(methods) > 1 else (member, 0)
        looks[name] = {
            "color": f"C{colour}",
            "marker": MARKERS[(member if len(settings) > 1 else group) % len(MARKERS)],
            "linestyle": LINES[line % len(LINES)],
        }
    return looks


def plot(points: list[CurvePoint], gaps: bool, title: str, axis: str = "samples") -> Figure:
    """A line per curve, with its standard errors as bars; a dotted one where there is a single sample.

    A colour per method, a style per setting; of one method a colour per setting.
    """
    from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display
    from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.add_subplot()
    curves = by_curve(points)
    looks = styles(list(curves))
    for name, curve in curves.items():
        x, y, bars = ([point._asdict()[field] for point in curve] for field in (axis, "quality", "error"))
        if [point.samples for point in curve] == [1] and axis == "samples":
            axes.axhline(*y, label=name, linestyle=":", color="black")
        else:
            bars = [bar or 0.0 for bar in bars]
            axes.errorbar(x, y, bars, label=name, markersize=5, linewidth=1.2, capsize=2, **looks[name])
    if axis == "samples":
        ticks = sorted({point.samples for point in points} - {1})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
    else:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:,g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    label = {"evaluations": "evaluations of the network"}.get(axis, axis)
    axes.set_title(title, parse_math=False)
    axes.set(xlabel=f"{label} per instance", ylabel="mean gap" if gaps else "mean cost")
    if gaps:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    return figure
