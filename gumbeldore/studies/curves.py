"""study=curves: quality against samples, evaluations or time [GD, figures 3 and 4], one search allowed ever more."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gumbeldore.evaluation.baseline import Baseline, solve_with
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.solved_sets import best_heuristic, check_solved, summarise
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem
from gumbeldore.runtime.checked import at_least, is_number, one_of
from gumbeldore.sampler.methods import Anytime, Method
from gumbeldore.seeding import fold
from gumbeldore.studies.study import About, Asked, ChosenMethod, Context, Shown, Study, Table, choices_of, how_often

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = ("time_limit", "iterations", "num_rounds")  # the first that is a list, or a time limit, makes a curve's points
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


@dataclass(frozen=True, kw_only=True)
class Curves(Study[Method | Baseline, CurvePoint]):
    """A curve for each method, and each combination of the values that `search` lists for its other settings.

    Arguments:
        axis: what a curve goes over, each per instance: samples, evaluations (of the network) or seconds
        repetitions: searches of each instance for each point, with other random numbers
    """

    axis: str = one_of("samples", "evaluations", "seconds")
    repetitions: int = at_least(2, 5)

    def searches(self, methods: list[ChosenMethod]) -> list[Asked[Method | Baseline]]:
        """The points of each curve, by growing number of rounds (or iterations, or seconds).

        Raises ValueError for a baseline or a search with a time limit, unless axis=seconds.
        """
        return [asked for method in methods for asked in self._curves_of(method)]

    def _curves_of(self, method: ChosenMethod) -> list[Asked[Method | Baseline]]:
        limit, listed = method.search["time_limit"], method.lists
        if method.own_limit and limit is None:
            raise ValueError(f"method={method.name} needs axis=seconds and search.time_limit, the points of its curve")
        if "time_limit" in method.reads and limit is not None:
            listed["time_limit"] = limit if isinstance(limit, list) else [limit]
        for key in POINTS:
            if wrong := [value for value in listed.get(key, []) if not is_number(value)]:
                raise ValueError(f"search.{key} must list numbers, got {wrong[0]!r}")
        along = next((key for key in POINTS if key in listed), None)
        if along == "iterations" and self.axis == "samples":
            rule = "search.iterations lists no numbers of samples"
            raise ValueError(f"method={method.name}: {rule}; choose axis=evaluations or axis=seconds")
        points = [{along: value} for value in sorted(listed.pop(along))] if along else [{}]
        largest = {key: max(listed.pop(key)) for key in POINTS if key in listed}
        build = method.build if self.axis == "seconds" else method.build_search
        curves: list[list[Method | Baseline]] = []
        found = []
        for values in choices_of(listed):
            curve = [build({**largest, **values, **point}) for point in points]
            if curve not in curves:  # else the value is one that the start of a reconstruction does not read
                curves.append(curve)
                found += [Asked(method.name, values, search) for search in curve]
        return found

    def measure(self, context: Context, searches: list[Asked[Method | Baseline]]) -> Iterator[CurvePoint]:
        places = Counter[str]()  # of the points on their curves
        for asked in searches:
            yield self._point(context, asked, places[asked.label])
            places[asked.label] += 1

    def _point(self, context: Context, asked: Asked[Method | Baseline], place: int) -> CurvePoint:
        """All points share the random numbers of their repetitions."""
        pool, instance_sets, seed, kept, advancing = context
        curve, count = asked.label, asked.repetitions(self.repetitions)
        parts = [[kept.parts(curve, place, i, number) for number in range(len(instance_sets))] for i in range(count)]
        done = sum(len(part) for each in parts for part in each)
        outcomes = []
        advance = advancing(curve, instance_sets * count, done)
        for repetition, found in enumerate(parts):
            own = int(fold(seed, "repetition", repetition))
            for instance_set, each in zip(instance_sets, found, strict=True):
                solve_with(asked.search, pool, instance_set, own, advance, each)
            _, solved = best_heuristic(found, instance_sets)
            check_solved(solved, instance_sets)  # means over other instances would not be comparable
            outcomes.append(summarise(solved, instance_sets))
        qualities = [x.merit for x in outcomes]
        searches = sum(x.num_instances for x in outcomes)
        solutions = sum(x.solutions for x in outcomes) / searches
        return CurvePoint(
            curve=curve,
            samples=_samples(asked.search, pool.problem, instance_sets) or round(solutions),
            quality=statistics.fmean(qualities),
            error=statistics.stdev(qualities) / math.sqrt(count) if count > 1 else None,
            solutions=solutions,
            evaluations=sum(x.evaluations for x in outcomes) / searches,
            seconds=sum(x.seconds for x in outcomes) / searches,
        )

    def progress(
        self, kept: Kept, searches: list[Asked[Method | Baseline]], found: list[CurvePoint], about: About
    ) -> tuple[int, int]:
        return kept.finished(), sum(asked.repetitions(self.repetitions) for asked in searches) * about.num_instances

    def content(
        self, searches: list[Asked[Method | Baseline]], found: list[CurvePoint], about: About
    ) -> dict[str, Any]:
        settings = {"repetitions": self.repetitions, "axis": self.axis}
        points = [point._asdict() for point in found]
        return {"quality": "mean gap" if about.gaps else "mean cost", **about._asdict(), **settings, "points": points}

    def show(self, searches: list[Asked[Method | Baseline]], found: list[CurvePoint], about: About) -> Shown:
        over_samples = self.axis == "samples"
        errors = not over_samples or len({x.samples for x in found}) <= 4  # beside more numbers they do not fit
        header, rows = by_samples(found, about.gaps, errors) if over_samples else by_point(found, about.gaps)
        shown = "mean and standard error" if errors else "mean (its error: study.csv)"
        often = how_often(self.repetitions, ((asked.label, asked) for asked in searches))
        return Shown([Table(about.title, header, rows)], f"{about.compared}; {shown} of {often}")

    def plot(self, found: list[CurvePoint], about: About) -> Figure:
        """A line per curve, with its standard errors as bars; a dotted one where there is a single sample.

        A colour per method, a style per setting; of one method a colour per setting.
        """
        from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display

        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.add_subplot()
        self.draw(axes, found, about.gaps)
        axes.set_title(about.title, parse_math=False)
        figure.legend(loc="outside right upper", fontsize="small")
        return figure

    def draw(self, axes: Axes, found: list[CurvePoint], gaps: bool) -> None:
        """The lines and the axes of `plot`; gaps: whether the quality is a gap, else a cost."""
        from matplotlib.ticker import LogLocator, NullFormatter, PercentFormatter

        curves = by_curve(found)
        looks = styles(list(curves))
        for name, curve in curves.items():
            x, y, bars = ([point._asdict()[field] for point in curve] for field in (self.axis, "quality", "error"))
            if [point.samples for point in curve] == [1] and self.axis == "samples":
                axes.axhline(*y, label=name, linestyle=":", color="black")
            else:
                bars = [bar or 0.0 for bar in bars]
                axes.errorbar(x, y, bars, label=name, markersize=5, linewidth=1.2, capsize=2, **looks[name])
        if self.axis == "samples":
            ticks = sorted({point.samples for point in found} - {1})
            axes.set_xscale("log", base=2)
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
        else:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        label = {"evaluations": "evaluations of the network"}.get(self.axis, self.axis)
        axes.set(xlabel=f"{label} per instance", ylabel="mean gap" if gaps else "mean cost")
        if gaps:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(alpha=0.3)


def _samples(method: Method | Baseline, problem: Problem, instance_sets: list[InstanceSet]) -> int | None:
    """The most solutions per instance, a mean over all sizes; None where only a time limit bounds them."""
    if not isinstance(method, Method) or isinstance(method, Anytime):
        return None
    each = [method.most_solutions(problem.horizon(instance_set.instances)) for instance_set in instance_sets]
    counts = [len(instance_set.names) for instance_set in instance_sets]
    return round(sum(n * count for n, count in zip(each, counts, strict=True)) / sum(counts))


def by_curve(points: list[CurvePoint]) -> dict[str, list[CurvePoint]]:
    """The points of each curve."""
    return {name: [point for point in points if point.curve == name] for name in dict.fromkeys(x.curve for x in points)}


def by_samples(points: list[CurvePoint], gaps: bool, errors: bool) -> tuple[list[str], list[list[str]]]:
    """The table over samples: a row per curve, a column per number of samples."""
    samples = sorted({point.samples for point in points})
    rows = []
    for name, curve in by_curve(points).items():
        shown = {x.samples: _quality(x, gaps) if errors else f"{x.quality:{'.2%' if gaps else '.3f'}}" for x in curve}
        rows.append([name, *(shown.get(count, "") for count in samples)])
    return ["samples", *map(str, samples)], rows


def by_point(points: list[CurvePoint], gaps: bool) -> tuple[list[str], list[list[str]]]:
    """The table over evaluations or time: a row per point."""
    rows = [[x.curve, str(x.samples), f"{x.evaluations:,.0f}", f"{x.seconds:.3g}", _quality(x, gaps)] for x in points]
    return ["curve", "samples", "evaluations", "seconds", "gap" if gaps else "cost"], rows


def _quality(point: CurvePoint, gaps: bool) -> str:
    form = ".3%" if gaps else ".4f"
    return f"{point.quality:{form}}" + ("" if point.error is None else f" ± {point.error:{form}}")


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
