"""Compare searches: `python study.py checkpoint=<run directory> instances=kool/tsp20`; see `--help`.

`study=curves` shows quality against samples, evaluations or time; `step_size` finds the best values of one search by a
race; `estimators` and `diversity` look at what samples say about a policy, and how different they are.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from omegaconf import DictConfig

from evaluate import add_references
from gumbeldore.benchmark import count_of
from gumbeldore.cli import command, parts
from gumbeldore.cli.evaluation import Machine, decisive, instances_for, new_directory, open_policy, typed
from gumbeldore.cli.overrides import check_effect, typed_keys, typed_words
from gumbeldore.cli.settings import StudySettings
from gumbeldore.cli.studies import curves, diversity, estimators, step_size
from gumbeldore.cli.studies.opened import Study
from gumbeldore.evaluation import results
from gumbeldore.evaluation.benchmarks import have_gaps
from gumbeldore.evaluation.kept import Kept
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.stopping import interruptible

# By kind; each module names the keys that it READS, beside those that its methods are given.
STUDIES: dict[str, ModuleType] = {
    "curves": curves,
    "step_size": step_size,
    "estimators": estimators,
    "diversity": diversity,
}


def chosen_study(kind: str, words: list[str]) -> ModuleType:
    """The study of this kind. Raises ValueError if there is none, or for a key that other studies alone read."""
    if kind not in STUDIES:
        raise ValueError(f"kind must be one of {', '.join(STUDIES)}, got {kind!r}")
    keys = [key.partition(".")[0] for key in typed_keys(words)]
    if "kind" in keys:
        raise ValueError(f"kind is what study= sets; choose study={kind}")
    for key in keys:
        readers = [name for name, each in STUDIES.items() if key in each.READS]
        if readers and kind not in readers:
            raise ValueError(f"{key} has no effect on study={kind}, only on study={', '.join(readers)}")
    return STUDIES[kind]


def study(cfg: DictConfig) -> Any:
    """Measure what is asked for; prints a table, writes it into out_dir."""
    run = StudySettings.of(cfg)
    chosen = chosen_study(run.kind, typed_words())
    check_effect(cfg, typed_words(), chosen.READS)
    loaded = open_policy(cfg, run.checkpoint)
    problem, policy = loaded.problem, loaded.policy
    parts.set_step_size(cfg.search, loaded)
    machine = Machine.of(run)
    searches = chosen.searches_of(cfg)
    benchmarks = instances_for(loaded, run)
    for name, search in chosen.by_method(searches):
        parts.check_method(name, search, loaded, benchmarks)
    out_dir = new_directory(run)
    manifest = decisive(cfg, machine, [loaded.path], benchmarks)

    with machine.pool(problem, policy, run.worker_threads) as pool, Terminal() as terminal, interruptible():
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        about = {"checkpoint": str(loaded.path), "instances": run.instances, "num_instances": count_of(benchmarks)}
        about |= {
            "hardware": str(machine),
            "command": typed(),
            "reference": results.reference_of(benchmarks) if have_gaps(benchmarks) else None,
            "remarks": results.remarks(benchmarks, problem),
        }
        with Kept(out_dir, manifest, run.resume) as kept:
            return chosen.measure(Study(run, pool, benchmarks, kept, terminal, out_dir, about), searches)


def main() -> None:
    command.run(study, "study")


if __name__ == "__main__":
    main()
