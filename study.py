"""Compare searches: `python study.py checkpoint=<run directory> instances=kool/tsp20`; see `--help`.

Curves show quality against samples, evaluations or time; a race (study=step_size) finds the best values of one search.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf, open_dict

from evaluate import add_references
from gumbeldore.cli import command, parts
from gumbeldore.cli.evaluation import (
    Machine,
    advancing,
    decisive,
    goes_on,
    instances_for,
    new_directory,
    open_policy,
    say_notices,
    typed,
)
from gumbeldore.cli.settings import StudySettings
from gumbeldore.evaluation import curves, results, step_size
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.evaluation.curves import CurvePoint
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.step_size import Arm
from gumbeldore.interfaces import Benchmark, count_of
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.races.outcome import Outcome
from gumbeldore.races.settings import RaceSettings
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.checked import is_number
from gumbeldore.runtime.stopping import interruptible
from gumbeldore.sampler.config import SearchConfig

NO_GAPS = "mean cost, as not all instances have a reference"
LENGTHS = ("beam_width", "num_rounds", "time_limit", "iterations", "equivalents")  # how long a search is
POINTS = ("time_limit", "iterations", "num_rounds")  # the first of these that is a list makes a curve's points


class Study(NamedTuple):
    """What curves and races work with."""

    run: StudySettings
    pool: SearchPool
    benchmarks: list[Benchmark]
    kept: Kept
    terminal: Terminal
    out_dir: Path
    about: dict[str, Any]  # what was measured and how


def study(cfg: DictConfig) -> list[CurvePoint] | Outcome:
    """Measure every curve asked for, or race the values that are listed; prints a table, writes it into out_dir."""
    run = StudySettings.of(cfg)
    problem, policy, _, path = loaded = open_policy(cfg, run)
    parts.set_step_size(cfg.search, loaded)
    machine = Machine.of(run)
    arms = arms_of(cfg) if run.race else []
    searches = {name: [arm.search for arm in arms] for name in cfg.methods} if run.race else searches_of(cfg)
    benchmarks = instances_for(loaded, run)
    for name, each in searches.items():
        for method in each:
            parts.check_method(name, method, problem, benchmarks)
    out_dir = new_directory(run, "study.json")
    manifest = decisive(cfg, machine, [path], benchmarks)

    with machine.pool(problem, policy, run.worker_threads) as pool, Terminal() as terminal, interruptible():
        say_notices(terminal, benchmarks)
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        about = {"checkpoint": str(path), "instances": run.instances, "num_instances": count_of(benchmarks)}
        about |= {
            "hardware": str(machine),
            "command": typed(),
            "reference": results.reference_of(benchmarks) if have_gaps(benchmarks) else None,
            "remarks": results.remarks(benchmarks, problem),
        }
        with Kept(out_dir, manifest, run.resume) as kept:
            opened = Study(run, pool, benchmarks, kept, terminal, out_dir, about)
            return measure_race(opened, run.race, arms) if run.race else measure_curves(opened, searches)


def measure_curves(opened: Study, searches: dict[str, list[SearchConfig | Baseline]]) -> list[CurvePoint]:
    """A point for every search of every curve; writes study.json, study.csv and study.png."""
    run, pool, benchmarks, kept, terminal, out_dir, about = opened
    about |= {"repetitions": run.repetitions, "axis": run.axis}
    gaps = have_gaps(benchmarks)
    every = [(curve, place, method) for curve, each in searches.items() for place, method in enumerate(each)]
    points: list[CurvePoint] = []
    try:
        for curve, place, method in every:
            found = parts_of(kept, (curve, place), run.repetitions, len(benchmarks))
            done = sum(len(part) for each in found for part in each)
            with advancing(terminal, curve, benchmarks * run.repetitions, done) as advance:
                how = run.repetitions, run.seed, advance, found
                points.append(curves.measure(curve, method, pool, benchmarks, *how))
            curves.write(out_dir, points, gaps, about)  # after each: a later one may not finish
    except KeyboardInterrupt:
        show(terminal, points, gaps, about, out_dir)
        count = len(every) * run.repetitions * about["num_instances"]
        raise goes_on(kept.finished(), count, out_dir) from None
    show(terminal, points, gaps, about, out_dir)
    return points


def measure_race(opened: Study, race: RaceSettings, arms: list[Arm]) -> Outcome:
    """The best of the arms; writes study.json and study.csv."""
    run, pool, benchmarks, kept, terminal, out_dir, about = opened
    gaps, most = have_gaps(benchmarks), len(arms) * about["num_instances"]
    try:
        with advancing(terminal, "race, at most", benchmarks * len(arms)) as advance:
            outcome = step_size.best_arm(arms, pool, benchmarks, race, run.seed, advance, kept.parts)
    except KeyboardInterrupt:
        raise goes_on(kept.finished(), f"at most {most}", out_dir) from None
    step_size.write(out_dir, arms, outcome, gaps, about | {"delta": race.delta, "searches of the full grid": most})
    chosen = f"{arms[outcome.arm].words} ({step_size.certainty(outcome, race.delta)})"
    note = [f"gap to: {about['reference']}" if gaps else NO_GAPS, *about["remarks"], about["hardware"]]
    title = f"{about['instances']}: {about['num_instances']} instances"
    terminal.table(title, *step_size.rows(arms, outcome, gaps), "\n".join(note))
    terminal.say(f"chosen: {chosen}")
    terminal.say(f"searches: {outcome.total} of the {most} of the full grid")
    terminal.say(f"written: {out_dir}/study.json, {out_dir}/study.csv")
    return outcome


def parts_of(kept: Kept, point: tuple[str, int], repetitions: int, benchmarks: int) -> list[list[Parts]]:
    """What is kept of a point of a curve (its name and place), by repetition and benchmark."""
    return [[kept.parts(*point, i, place) for place in range(benchmarks)] for i in range(repetitions)]


def show(terminal: Terminal, points: list[CurvePoint], gaps: bool, about: dict[str, Any], out_dir: Path) -> None:
    """The table of the points that are measured, if there are any."""
    if not points:
        return
    what = f"gap to: {about['reference']}" if gaps else NO_GAPS
    what += f"; mean and standard error of {about['repetitions']} repetitions"
    note = "\n".join([what, *about["remarks"], about["hardware"]])
    terminal.table(
        f"{about['instances']}: {about['num_instances']} instances", *curves.rows(points, gaps, about["axis"]), note
    )
    terminal.say(f"written: {out_dir}/study.json, {out_dir}/study.csv, {out_dir}/study.png")


def searches_of(cfg: DictConfig) -> dict[str, list[SearchConfig | Baseline]]:
    """The points of each curve, by growing number of rounds (or iterations, or seconds).

    A method has a curve for each combination of the values that `search` lists for its parameters.

    Raises ValueError for a baseline or a search with a time limit, unless axis=seconds.
    """
    found: dict[str, list[SearchConfig | Baseline]] = {}
    if empty := [key for key, value in cfg.search.items() if OmegaConf.is_list(value) and not value]:
        raise ValueError(f"search.{empty[0]}=[]: there must be one value at least")
    build = parts.build_method if cfg.axis == "seconds" else parts.build_search
    for name, method in parts.methods_of(cfg).items():
        if "time_limit" in method:  # a solver's own; in a study it has that of the searches
            if cfg.search.time_limit is None:
                raise ValueError(f"method={name} needs axis=seconds and search.time_limit, the points of its curve")
            method = method.copy()
            with open_dict(method):
                del method["time_limit"]
        read = parts.search_keys(method, cfg.search)
        listed = {key: list(cfg.search[key]) for key in read if OmegaConf.is_list(cfg.search[key])}
        for key in POINTS:
            if wrong := [value for value in listed.get(key, []) if not is_number(value)]:
                raise ValueError(f"search.{key} must list numbers, got {wrong[0]!r}")
        along = next((key for key in POINTS if key in listed), None)
        if along == "iterations" and cfg.axis == "samples":
            rule = "search.iterations lists no numbers of samples"
            raise ValueError(f"method={name}: {rule}; choose axis=evaluations or axis=seconds")
        points = [{along: value} for value in sorted(listed.pop(along))] if along else [{}]
        largest = {key: max(listed.pop(key)) for key in POINTS if key in listed}
        own: dict[str, list[SearchConfig | Baseline]] = {}
        for values in itertools.product(*listed.values()):
            chosen = dict(zip(listed, values, strict=True))
            curve = ", ".join([name, *(f"{key}={value}" for key, value in chosen.items())])
            searches = ({**cfg.search, **largest, **chosen, **point} for point in points)
            built = [build(name, method, search) for search in searches]
            if built not in own.values():  # else the value is one that the start of a reconstruction does not read
                own[curve] = built
        found |= own
    return found


def arms_of(cfg: DictConfig) -> list[Arm]:
    """A search for each combination of the values that `search` lists for the parameters of the one method.

    Raises ValueError unless there are two at least, which are equally long.
    """
    chosen = parts.methods_of(cfg)
    if len(chosen) != 1:
        raise ValueError(f"study=step_size compares values of one search method, got method=[{','.join(chosen)}]")
    ((name, method),) = chosen.items()
    listed = {
        key: cfg.search[key] for key in parts.search_keys(method, cfg.search) if OmegaConf.is_list(cfg.search[key])
    }
    if long := [key for key in LENGTHS if key in listed]:
        rule = "the searches that study=step_size compares must be equally long; give one value"
        raise ValueError(f"search.{long[0]}=[{','.join(map(str, listed[long[0]]))}]: {rule}")
    found: list[Arm] = []
    for values in itertools.product(*listed.values()):
        mine = dict(zip(listed, values, strict=True))
        arm = Arm(mine, parts.build_search(name, method, {**cfg.search, **mine}))
        if arm.search not in [other.search for other in found]:  # else the method reads the value in no round
            found.append(arm)
    if len(found) < 2:
        rule = "several values to compare, for example 'search.step_size=[0.1,0.3,1]'"
        raise ValueError(f"study=step_size needs {rule}")
    return found


def main() -> None:
    command.run(study, "study")


if __name__ == "__main__":
    main()
