"""Quality against samples or time: `python study.py checkpoint=<run directory> instances=kool/tsp20`; see `--help`."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

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
from gumbeldore.evaluation import curves, results
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.evaluation.curves import CurvePoint
from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.parts import Parts
from gumbeldore.interfaces import count_of
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.checked import is_number
from gumbeldore.runtime.stopping import interruptible
from gumbeldore.sampler.config import SearchConfig

POINTS = ("time_limit", "iterations", "num_rounds")  # the first of these that is a list makes a curve's points


def study(cfg: DictConfig) -> list[CurvePoint]:
    """Measure every curve asked for; prints a table, writes study.json, study.csv and study.png."""
    run = StudySettings.of(cfg)
    problem, policy, _, path = loaded = open_policy(cfg, run)
    parts.set_step_size(cfg.search, loaded)
    machine = Machine.of(run)
    searches = searches_of(cfg)
    benchmarks = instances_for(loaded, run)
    for curve, each in searches.items():
        for method in each:
            parts.check_method(curve, method, problem, benchmarks)
    out_dir = new_directory(run, "study.json")
    manifest = decisive(cfg, machine, [path], benchmarks)

    points: list[CurvePoint] = []
    with machine.pool(problem, policy, run.worker_threads) as pool, Terminal() as terminal, interruptible():
        say_notices(terminal, benchmarks)
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        gaps, count = have_gaps(benchmarks), count_of(benchmarks)
        about = {"checkpoint": str(path), "instances": run.instances, "num_instances": count, "hardware": str(machine)}
        about |= {
            "command": typed(),
            "repetitions": run.repetitions,
            "axis": run.axis,
            "reference": results.reference_of(benchmarks) if gaps else None,
            "remarks": results.remarks(benchmarks, problem),
        }
        every = [(curve, place, method) for curve, each in searches.items() for place, method in enumerate(each)]
        with Kept(out_dir, manifest, run.resume) as kept:
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
                raise goes_on(kept.finished(), len(every) * run.repetitions * count, out_dir) from None
            show(terminal, points, gaps, about, out_dir)
    return points


def parts_of(kept: Kept, point: tuple[str, int], repetitions: int, benchmarks: int) -> list[list[Parts]]:
    """What is kept of a point of a curve (its name and place), by repetition and benchmark."""
    return [[kept.parts(*point, i, place) for place in range(benchmarks)] for i in range(repetitions)]


def show(terminal: Terminal, points: list[CurvePoint], gaps: bool, about: dict[str, Any], out_dir: Path) -> None:
    """The table of the points that are measured, if there are any."""
    if not points:
        return
    what = f"gap to: {about['reference']}" if gaps else "mean cost, as not all instances have a reference"
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


def main() -> None:
    command.run(study, "study")


if __name__ == "__main__":
    main()
