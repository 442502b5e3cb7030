"""study=diversity: how good the solutions of a search are, and how different from each other."""

from __future__ import annotations

from omegaconf import DictConfig

from gumbeldore.cli import parts
from gumbeldore.cli.evaluation import advancing, goes_on
from gumbeldore.cli.studies.opened import NO_GAPS, Asked, Study, combinations, repeated, repetitions_of, written
from gumbeldore.cli.studies.opened import by_method as by_method
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.studies import diversity, tables
from gumbeldore.studies.diversity import Point

READS = ("repetitions",)


def searches_of(cfg: DictConfig) -> list[Asked]:
    """A curve for each method, with a point for each combination of the values that `search` lists for it."""
    found: list[Asked] = []
    for name, method in parts.methods_of(cfg).items():
        for values, search in combinations(name, method, cfg.search):
            setting = ", ".join(f"{key}={value}" for key, value in values.items())
            found.append(Asked(name, setting, search))
    return found


def measure(opened: Study, searches: list[Asked]) -> list[Point]:
    """The points of all curves; writes study.json, study.csv and study.png."""
    run, benchmarks, terminal, out_dir = opened.run, opened.benchmarks, opened.terminal, opened.out_dir
    about = opened.about | {"repetitions": run.repetitions}
    gaps = have_gaps(benchmarks)
    references = [benchmark.references.tolist() for benchmark in benchmarks]  # a point has gaps to them
    points: list[Point] = []
    try:
        for method, setting, search in searches:
            repetitions = repetitions_of(search, run.repetitions)
            with advancing(terminal, f"{method} {setting}", benchmarks * repetitions) as advance:
                how = search, opened.pool, benchmarks, repetitions, run.seed, advance
                of = method, setting, references  # in whatever order the methods are asked for
                found = opened.kept.value(lambda: diversity.measure(method, setting, *how), *of)  # noqa: B023
            points.append(Point(*found))
    except KeyboardInterrupt:
        raise goes_on(len(points), len(searches), out_dir) from None
    with terminal.sparing(f"one of {out_dir}/study.*"):
        diversity.write(out_dir, points, gaps, about)
    what = f"gap to: {about['reference']}" if gaps else NO_GAPS
    note = [
        f"{what}; means over instances and {repeated(run.repetitions, by_method(searches))}",
        *about["remarks"],
        about["hardware"],
    ]
    title = tables.title_of(about)
    terminal.table(title, *diversity.rows(points, gaps), "\n".join(note))
    terminal.say(written(out_dir))
    return points
