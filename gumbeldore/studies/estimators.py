"""study=estimators: how well expectations under the policy are estimated from k samples [SBS, figures 3 and 4]."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gumbeldore.runtime.checked import at_least
from gumbeldore.sampler.methods import DEFAULTS, Beam
from gumbeldore.studies import expectations
from gumbeldore.studies.expectations import ESTIMATORS, QUANTITIES, Estimable, EstimatorPoint, Reference, TemperedBeam
from gumbeldore.studies.study import About, Asked, ChosenMethod, Context, Shown, Study, Table, choices_of, how_often

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTS = ("temperature", "num_rounds", "beam_width")  # these may list values, whichever of them a method reads
AT_DEFAULT = ("top_p_start", "top_p_end", "equivalents", "sampled_root")  # these must have their defaults
FAR_OFF = ("SBS, unbiased", "beam search, bound")  # of few samples: they may leave the picture


class Estimated(NamedTuple):
    """What the samples of a search say."""

    points: list[EstimatorPoint]  # of each estimator and quantity
    reference: Reference


@dataclass(frozen=True, kw_only=True)
class Estimators(Study[Estimable, Estimated]):
    """Every method with every temperature and number of samples.

    Arguments:
        repetitions: searches of each instance for each point, with other random numbers
        reference_samples: independent samples of each instance, whose mean is the reference where an instance has more
            than 6,000 solutions
    """

    reads: ClassVar[tuple[str, ...]] = tuple(f"search.{key}" for key in LISTS)
    repetitions: int = at_least(2, 5)
    reference_samples: int = at_least(1, 20_000)

    def searches(self, methods: list[ChosenMethod]) -> list[Asked[Estimable]]:
        """A beam is as wide as the others have samples.

        Raises ValueError for a method without an estimator, and for what changes the distribution of the samples.
        """
        if unknown := [method.name for method in methods if method.name not in ESTIMATORS]:
            rule = f"{unknown[0]} has no estimators; the methods that have: {', '.join(ESTIMATORS)}"
            raise ValueError(f"study=estimators: {rule}")
        found: list[Asked[Estimable]] = []
        for method in methods:
            settings = method.search
            for key in AT_DEFAULT:
                if settings[key] != DEFAULTS[key]:
                    rule = f"search.{key} must be {str(DEFAULTS[key]).lower()}, the estimators hold for no other"
                    raise ValueError(f"study=estimators: {rule}, got {settings[key]}")
            lists = {key: settings[key] if isinstance(settings[key], list) else [settings[key]] for key in LISTS}
            if "auto" in lists["temperature"]:
                raise ValueError("study=estimators: search.temperature must be a number above 0, got auto")
            for values in choices_of(lists):
                asked = _search(method, values)
                if asked not in found:
                    found.append(asked)
        return found

    def measure(self, context: Context, searches: list[Asked[Estimable]]) -> Iterator[Estimated]:
        for asked in searches:
            method, search = asked.method, asked.search
            tau, kept = float(search.temperature), context.kept
            compared = Reference(*kept.value(partial(self._reference, context, tau), "reference", tau))
            names = method, tau, search.beam_width, search.num_rounds  # in whatever order the methods are asked for
            found = kept.value(partial(self._estimates, context, asked), "estimates", *names)
            yield Estimated(expectations.points(method, search, found, compared), compared)

    def _reference(self, context: Context, temperature: float) -> Reference:
        pool, instance_sets, seed, _, advancing = context
        advancing("reference", instance_sets)
        return expectations.reference(pool, instance_sets, temperature, self.reference_samples, seed)

    def _estimates(self, context: Context, asked: Asked[Estimable]) -> dict[str, list[list[float]]]:
        pool, instance_sets, seed, _, advancing = context
        count = asked.repetitions(self.repetitions)
        advance = advancing(asked.label, instance_sets * count)
        return expectations.measure(asked.method, asked.search, pool, instance_sets, count, seed, advance)

    def content(self, searches: list[Asked[Estimable]], found: list[Estimated], about: About) -> dict[str, Any]:
        settings = {"repetitions": self.repetitions, "reference": described(references_of(found))}
        points = [point._asdict() for each in found for point in each.points]
        return {**about._asdict(), **settings, "points": points}

    def show(self, searches: list[Asked[Estimable]], found: list[Estimated], about: About) -> Shown:
        """A table for each quantity and temperature: a row per estimator, a column per number of samples."""
        compared = references_of(found)
        tables = []
        for quantity, tau in itertools.product(QUANTITIES, compared):
            mine = [x for each in found for x in each.points if (x.quantity, x.temperature) == (quantity, tau)]
            error = getattr(compared[tau], f"{quantity}_error")
            expected = f"{mine[0].reference:.4f}" + (f" ± {error:.1g}" if compared[tau].samples else "")
            title = f"{about.instances}, temperature {tau:g}: expected {quantity} {expected}"
            tables.append(Table(title, *rows(mine)))
        often = how_often(self.repetitions, ((asked.method, asked) for asked in searches))
        return Shown(tables, f"root mean squared error of {often}; reference: {described(compared)}")

    def plot(self, found: list[Estimated], about: About) -> Figure:
        """Mean and 90% range of the estimates over the samples: a row per quantity, a column per temperature."""
        from matplotlib.figure import Figure  # the object interface: no pyplot, no global state, no display

        points = [point for each in found for point in each.points]
        temperatures = list(dict.fromkeys(point.temperature for point in points))
        names = list(dict.fromkeys(map(curve_of, points)))
        figure = Figure(figsize=(2.2 + 3.2 * len(temperatures), 6.0), layout="constrained")
        every = figure.subplots(len(QUANTITIES), len(temperatures), squeeze=False)
        for row, quantity in zip(every, QUANTITIES, strict=True):
            for axes, temperature in zip(row, temperatures, strict=True):
                mine = [x for x in points if (x.quantity, x.temperature) == (quantity, temperature)]
                for number, name in enumerate(names):
                    curve = sorted((x for x in mine if curve_of(x) == name), key=lambda x: x.samples)
                    if not curve:
                        continue
                    x, mean, low, high = zip(*((p.samples, p.mean, p.low, p.high) for p in curve), strict=True)
                    axes.plot(x, mean, marker="os^vD"[number % 5], markersize=4, color=f"C{number}", label=name)
                    axes.fill_between(x, low, high, color=f"C{number}", alpha=0.15, linewidth=0)
                axes.set_ylim(*_range_of([x for x in mine if x.estimator not in FAR_OFF] or mine))
                axes.axhline(mine[0].reference, linestyle=":", color="black", label="expected")
                axes.set_xscale("log", base=2)
                axes.set(title=f"temperature {temperature:g}", xlabel="samples", ylabel=f"estimate of the {quantity}")
                axes.grid(alpha=0.3)
        figure.suptitle(about.title, parse_math=False)
        handles, labels = every[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
        return figure


def _search(method: ChosenMethod, values: dict[str, Any]) -> Asked[Estimable]:
    """The search of a method with these values of LISTS."""
    tau, rounds, width = (values[key] for key in LISTS)
    search = method.build_search({**values, "beam_width": width * rounds if method.name == "beam" else width})
    if isinstance(search, Beam):
        search = TemperedBeam(search.beam_width, tau)
    assert isinstance(search, Estimable)
    return Asked(method.name, {"samples": search.beam_width * search.num_rounds, "temperature": tau}, search)


def references_of(found: list[Estimated]) -> dict[float, Reference]:
    """What the estimates are compared with, by temperature."""
    return {each.points[0].temperature: each.reference for each in found}


def described(compared: dict[float, Reference]) -> str:
    """Where the references are from, in words."""
    each: dict[str, list[str]] = {}
    for temperature, found in compared.items():
        what = f"the mean of {found.samples:,} independent samples" if found.samples else "exact, over all solutions"
        each.setdefault(what, []).append(f"{temperature:g}")
    if len(each) == 1:
        return next(iter(each))
    return "; ".join(f"{what} (temperature {', '.join(of)})" for what, of in each.items())


def rows(found: list[EstimatorPoint]) -> tuple[list[str], list[list[str]]]:
    """The table of a quantity at a temperature: the error of each estimator, a column per number of samples."""
    columns = sorted({point.samples for point in found})
    lines = []
    for name in dict.fromkeys(map(curve_of, found)):
        errors = {point.samples: _short(point.error) for point in found if curve_of(point) == name}
        lines.append([name, *(errors.get(count, "") for count in columns)])
    return ["samples", *map(str, columns)], lines


def _short(error: float) -> str:
    return f"{error:.2g}" if error >= 0.001 else f"{error:.0e}"


def curve_of(point: EstimatorPoint) -> str:
    """What a point is part of: an estimator, with its rounds if there are several."""
    return point.estimator if point.rounds == 1 else f"{point.estimator}, {point.rounds} rounds"


def _range_of(found: list[EstimatorPoint]) -> tuple[float, float]:
    """Of an axis that shows the estimates and their reference, with a margin."""
    low = min(found[0].reference, *(x.low for x in found))
    high = max(found[0].reference, *(x.high for x in found))
    margin = 0.3 * (high - low) or 1.0
    return low - margin, high + margin
