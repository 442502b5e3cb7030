"""study=curves: quality against samples, evaluations or time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from gumbeldore.cli import parts
from gumbeldore.cli.evaluation import advancing, goes_on
from gumbeldore.cli.studies.opened import NO_GAPS, Study, check_lists, repeated, repetitions_of, written
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.parts import Parts
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.checked import is_number
from gumbeldore.sampler.methods import Method
from gumbeldore.studies import curves, tables
from gumbeldore.studies.curves import CurvePoint

READS = ("axis", "repetitions")
POINTS = ("time_limit", "iterations", "num_rounds")  # the first that is a list, or a time limit, makes a curve's points


def searches_of(cfg: DictConfig) -> dict[str, list[Method | Baseline]]:
    """The points of each curve, by growing number of rounds (or iterations, or seconds).

    A method has a curve for each combination of the values that `search` lists for its parameters.

    Raises ValueError for a baseline or a search with a time limit, unless axis=seconds.
    """
    found: dict[str, list[Method | Baseline]] = {}
    search = cfg.search.copy()
    if search.time_limit is not None and not OmegaConf.is_list(search.time_limit):
        search.time_limit = [search.time_limit]  # of one point, as other limits would be
    check_lists(search)
    build = parts.build_method if cfg.axis == "seconds" else parts.build_search
    for name, method in parts.methods_of(cfg).items():
        if "time_limit" in method:  # a solver's own; in a study it has that of the searches
            if search.time_limit is None:
                raise ValueError(f"method={name} needs axis=seconds and search.time_limit, the points of its curve")
            method = method.copy()
            with open_dict(method):
                del method["time_limit"]
        read = parts.search_keys(method, search)
        listed = {key: list(search[key]) for key in read if OmegaConf.is_list(search[key])}
        for key in POINTS:
            if wrong := [value for value in listed.get(key, []) if not is_number(value)]:
                raise ValueError(f"search.{key} must list numbers, got {wrong[0]!r}")
        along = next((key for key in POINTS if key in listed), None)
        if along == "iterations" and cfg.axis == "samples":
            rule = "search.iterations lists no numbers of samples"
            raise ValueError(f"method={name}: {rule}; choose axis=evaluations or axis=seconds")
        points = [{along: value} for value in sorted(listed.pop(along))] if along else [{}]
        largest = {key: max(listed.pop(key)) for key in POINTS if key in listed}
        own: dict[str, list[Method | Baseline]] = {}
        for values in itertools.product(*listed.values()):
            chosen = dict(zip(listed, values, strict=True))
            curve = ", ".join([name, *(f"{key}={value}" for key, value in chosen.items())])
            settings = ({**search, **largest, **chosen, **point} for point in points)
            built = [build(name, method, each) for each in settings]
            if built not in own.values():  # else the value is one that the start of a reconstruction does not read
                own[curve] = built
        found |= own
    return found


def by_method(searches: dict[str, list[Method | Baseline]]) -> list[tuple[str, Method | Baseline]]:
    """Every search, with the name to call it in messages."""
    return [(name, search) for name, each in searches.items() for search in each]


def measure(opened: Study, searches: dict[str, list[Method | Baseline]]) -> list[CurvePoint]:
    """A point for every search of every curve; writes study.json, study.csv and study.png."""
    run, benchmarks, terminal, out_dir = opened.run, opened.benchmarks, opened.terminal, opened.out_dir
    about = opened.about | {"repetitions": run.repetitions, "axis": run.axis}
    gaps, often = have_gaps(benchmarks), repeated(run.repetitions, by_method(searches))
    every = [(curve, place, method) for curve, each in searches.items() for place, method in enumerate(each)]
    points: list[CurvePoint] = []
    try:
        for curve, place, method in every:
            repetitions = repetitions_of(method, run.repetitions)
            found = _parts_of(opened.kept, (curve, place), repetitions, len(benchmarks))
            done = sum(len(part) for each in found for part in each)
            with advancing(terminal, curve, benchmarks * repetitions, done) as advance:
                how = repetitions, run.seed, advance, found
                points.append(curves.measure(curve, method, opened.pool, benchmarks, *how))
            with terminal.sparing(f"one of {out_dir}/study.*"):
                curves.write(out_dir, points, gaps, about)  # after each: a later one may not finish
    except KeyboardInterrupt:
        _show(terminal, points, gaps, often, about, out_dir)
        count = sum(repetitions_of(method, run.repetitions) for *_, method in every) * about["num_instances"]
        raise goes_on(opened.kept.finished(), count, out_dir) from None
    _show(terminal, points, gaps, often, about, out_dir)
    return points


def _parts_of(kept: Kept, point: tuple[str, int], repetitions: int, benchmarks: int) -> list[list[Parts]]:
    """What is kept of a point of a curve (its name and place), by repetition and benchmark."""
    return [[kept.parts(*point, i, place) for place in range(benchmarks)] for i in range(repetitions)]


def _show(
    terminal: Terminal, points: list[CurvePoint], gaps: bool, often: str, about: dict[str, Any], out_dir: Path
) -> None:
    """The table of the points that are measured, if there are any; `often` says how often each was."""
    if not points:
        return
    what = f"gap to: {about['reference']}" if gaps else NO_GAPS
    shown = "mean and standard error" if curves.shows_errors(points, about["axis"]) else "mean (its error: study.csv)"
    what += f"; {shown} of {often}"
    note = "\n".join([what, *about["remarks"], about["hardware"]])
    terminal.table(tables.title_of(about), *curves.rows(points, gaps, about["axis"]), note)
    terminal.say(written(out_dir))
