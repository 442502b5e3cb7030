"""study=estimators: how well expectations under the policy are estimated from k samples."""

from __future__ import annotations

import itertools

from omegaconf import DictConfig, OmegaConf

from gumbeldore.cli import parts
from gumbeldore.cli.evaluation import advancing, goes_on
from gumbeldore.cli.studies.opened import Asked, Study, check_lists, repeated, repetitions_of, written
from gumbeldore.cli.studies.opened import by_method as by_method
from gumbeldore.sampler.methods import DEFAULTS, Beam
from gumbeldore.studies import expectations
from gumbeldore.studies.expectations import ESTIMATORS, QUANTITIES, Plain, Point, Reference, TemperedBeam

LISTS = ("temperature", "num_rounds", "beam_width")
READS = ("repetitions", "reference_samples", *(f"search.{key}" for key in LISTS))
PLAIN = ("top_p_start", "top_p_end", "equivalents", "sampled_root")


def searches_of(cfg: DictConfig) -> list[Asked]:
    """Every method with every temperature and number of samples; a beam is as wide as the others have samples.

    Raises ValueError for a method without an estimator, and for what changes the distribution of the samples.
    """
    methods = parts.methods_of(cfg)
    if unknown := [name for name in methods if name not in ESTIMATORS]:
        raise ValueError(
            f"study=estimators: {unknown[0]} has no estimators; the methods that have: {', '.join(ESTIMATORS)}"
        )
    search = cfg.search
    check_lists(search)
    _check_plain(search)
    lists = [list(search[key]) if OmegaConf.is_list(search[key]) else [search[key]] for key in LISTS]
    found: list[Asked] = []
    for (name, method), temperature, rounds, width in itertools.product(methods.items(), *lists):
        samples = {"num_rounds": rounds, "beam_width": width * rounds if name == "beam" else width}
        built = parts.build_search(name, method, {**parts.plain(search), **samples, "temperature": temperature})
        if isinstance(built, Beam):
            built = TemperedBeam(built.beam_width, temperature)
        assert isinstance(built, Plain)
        setting = f"{built.beam_width * built.num_rounds} samples, temperature {temperature:g}"
        asked = Asked(name, setting, built)
        if asked not in found:
            found.append(asked)
    return found


def _check_plain(search: DictConfig) -> None:
    """Raises ValueError unless the searches sample from the policy as the estimators take for granted."""
    for name in PLAIN:
        if search[name] != DEFAULTS[name]:
            rule = f"search.{name} must be {str(DEFAULTS[name]).lower()}"
            raise ValueError(f"study=estimators: {rule}, the estimators hold for no other, got {search[name]}")


def measure(opened: Study, searches: list[Asked]) -> list[Point]:
    """The estimates of every search; writes study.json, study.csv and study.png."""
    run, benchmarks, terminal, out_dir = opened.run, opened.benchmarks, opened.terminal, opened.out_dir
    pool, kept = opened.pool, opened.kept
    about = opened.about | {"repetitions": run.repetitions}
    compared: dict[float, Reference] = {}
    points: list[Point] = []
    done = 0
    try:
        for method, setting, search in searches:
            assert isinstance(search, Plain)
            tau = search.temperature
            of = method, tau, search.beam_width, search.num_rounds  # in whatever order the methods are asked for
            if tau not in compared:
                terminal.progress("reference", 0, 1)
                asked = benchmarks, tau, run.reference_samples, run.seed
                compared[tau] = Reference(*kept.value(lambda: expectations.reference(pool, *asked), "reference", tau))  # noqa: B023
            repetitions = repetitions_of(search, run.repetitions)
            with advancing(terminal, f"{method}, {setting}", benchmarks * repetitions) as advance:
                how = pool, benchmarks, repetitions, run.seed, advance
                found = kept.value(lambda: expectations.measure(method, search, *how), "estimates", *of)  # noqa: B023
            points += expectations.points(method, search, found, compared[tau])
            done += 1
    except KeyboardInterrupt:
        raise goes_on(done, len(searches), out_dir) from None
    with terminal.sparing(f"one of {out_dir}/study.*"):
        expectations.write(out_dir, points, about | {"reference": _described(compared)})
    often = repeated(run.repetitions, by_method(searches))
    note = [f"root mean squared error of {often}; reference: {_described(compared)}"]
    note += [*about["remarks"], about["hardware"]]
    tables = list(itertools.product(QUANTITIES, compared))
    for quantity, tau in tables:
        mine = [point for point in points if (point.quantity, point.temperature) == (quantity, tau)]
        error = getattr(compared[tau], f"{quantity}_error")
        expected = f"{mine[0].reference:.4f}" + (f" ± {error:.1g}" if compared[tau].samples else "")
        title = f"{about['instances']}, temperature {tau:g}: expected {quantity} {expected}"
        last = (quantity, tau) == tables[-1]
        terminal.table(title, *expectations.rows(mine), "\n".join(note) if last else "")
    terminal.say(written(out_dir))
    return points


def _described(compared: dict[float, Reference]) -> str:
    each: dict[str, list[str]] = {}
    for temperature, found in compared.items():
        what = f"the mean of {found.samples:,} independent samples" if found.samples else "exact, over all solutions"
        each.setdefault(what, []).append(f"{temperature:g}")
    if len(each) == 1:
        return next(iter(each))
    return "; ".join(f"{what} (temperature {', '.join(of)})" for what, of in each.items())
