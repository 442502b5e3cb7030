"""study=step_size: the best values of one search, by a race."""

from __future__ import annotations

from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from gumbeldore.cli import parts
from gumbeldore.cli.evaluation import advancing, goes_on
from gumbeldore.cli.studies.opened import NO_GAPS, Study, combinations, written
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.races.outcome import Outcome
from gumbeldore.sampler.methods import Method
from gumbeldore.studies import step_size, tables
from gumbeldore.studies.step_size import Arm

READS = ("race",)
# How long a search is.
LENGTHS = ("beam_width", "num_rounds", "time_limit", "iterations", "equivalents", "replan_steps", "max_rounds")


class Arms(NamedTuple):
    """What is compared."""

    method: str
    arms: list[Arm]


def searches_of(cfg: DictConfig) -> Arms:
    """A search for each combination of the values that `search` lists for the parameters of the one method.

    Raises ValueError unless there are two at least, which are equally long, and the settings of a race.
    """
    if cfg.race is None:
        raise ValueError("race must not be null: study=step_size is a race")
    chosen = parts.methods_of(cfg)
    if len(chosen) != 1:
        raise ValueError(f"study=step_size compares values of one search method, got method=[{','.join(chosen)}]")
    ((name, method),) = chosen.items()
    for key in LENGTHS:
        if key in parts.search_keys(method, cfg.search) and OmegaConf.is_list(cfg.search[key]):
            rule = "the searches that study=step_size compares must be equally long; give one value"
            raise ValueError(f"search.{key}=[{','.join(map(str, cfg.search[key]))}]: {rule}")
    found = [Arm(*each) for each in combinations(name, method, cfg.search)]
    if len(found) < 2:
        rule = "several values to compare, for example 'search.step_size=[0.1,0.3,1]'"
        raise ValueError(f"study=step_size needs {rule}")
    return Arms(name, found)


def by_method(searches: Arms) -> list[tuple[str, Method]]:
    """Every search, with the name to call it in messages."""
    return [(searches.method, arm.search) for arm in searches.arms]


def measure(opened: Study, searches: Arms) -> Outcome:
    """The best of the arms; writes study.json and study.csv."""
    run, benchmarks, terminal, out_dir = opened.run, opened.benchmarks, opened.terminal, opened.out_dir
    arms, race, about = searches.arms, run.race, opened.about
    assert race is not None
    gaps, most = have_gaps(benchmarks), len(arms) * about["num_instances"]
    try:
        with advancing(terminal, "race, at most", benchmarks * len(arms)) as advance:
            outcome = step_size.best_arm(arms, opened.pool, benchmarks, race, run.seed, advance, opened.kept.parts)
    except KeyboardInterrupt:
        raise goes_on(opened.kept.finished(), f"at most {most}", out_dir) from None
    with terminal.sparing(f"one of {out_dir}/study.*"):
        step_size.write(out_dir, arms, outcome, gaps, about | {"delta": race.delta, "searches of the full grid": most})
    chosen = f"{arms[outcome.arm].words} ({step_size.certainty(outcome, race.delta)})"
    note = [f"gap to: {about['reference']}" if gaps else NO_GAPS, *about["remarks"], about["hardware"]]
    title = tables.title_of(about)
    terminal.table(title, *step_size.rows(arms, outcome, gaps), "\n".join(note))
    terminal.say(f"chosen: {chosen}")
    terminal.say(f"searches: {outcome.total} of the {most} of the full grid")
    terminal.say(written(out_dir))
    return outcome
