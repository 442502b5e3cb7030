"""Quality against samples: `python study.py checkpoint=<run directory> instances=kool/tsp20`; `--help` has the keys."""

from __future__ import annotations

import itertools

from omegaconf import DictConfig, OmegaConf

from evaluate import add_references
from gumbeldore.cli import command, parts
from gumbeldore.cli.evaluation import (
    Machine,
    advancing,
    instances_for,
    new_directory,
    open_policy,
    say_notices,
    typed,
)
from gumbeldore.cli.settings import StudySettings
from gumbeldore.evaluation import curves, results
from gumbeldore.evaluation.curves import CurvePoint
from gumbeldore.evaluation.solve import have_gaps
from gumbeldore.reporting.console import Terminal
from gumbeldore.sampler.config import SearchConfig


def study(cfg: DictConfig) -> list[CurvePoint]:
    """Measure every curve asked for; prints a table, writes study.json, study.csv and study.png."""
    run = StudySettings.of(cfg)
    problem, policy, _, path = open_policy(cfg, run)
    machine = Machine.of(run)
    searches = searches_of(cfg)
    benchmarks = instances_for(problem, run)
    out_dir = new_directory(run.out_dir, "study.json")

    points: list[CurvePoint] = []
    with machine.pool(problem, policy, run.worker_threads) as pool, Terminal() as terminal:
        say_notices(terminal, benchmarks)
        benchmarks = add_references(cfg, problem, benchmarks, terminal)
        out_dir.mkdir(parents=True, exist_ok=True)
        gaps, count = have_gaps(benchmarks), sum(len(benchmark.names) for benchmark in benchmarks)
        about = {"checkpoint": str(path), "instances": run.instances, "num_instances": count, "hardware": str(machine)}
        about |= {
            "command": typed(),
            "repetitions": run.repetitions,
            "reference": results.reference_of(benchmarks) if gaps else None,
        }
        for curve, configs in searches.items():
            for config in configs:
                with advancing(terminal, curve, benchmarks * run.repetitions) as advance:
                    points.append(curves.measure(curve, config, pool, benchmarks, run.repetitions, run.seed, advance))
            curves.write(out_dir, points, gaps, about)  # after each: a later one may not finish
        what = f"gap to: {about['reference']}" if gaps else "mean cost, as not all instances have a reference"
        note = f"{what}; mean and standard error of {run.repetitions} repetitions\n{machine}"
        terminal.table(f"{run.instances}: {count} instances", *curves.rows(points, gaps), note)
        terminal.say(f"written: {out_dir}/study.json, {out_dir}/study.csv, {out_dir}/study.png")
    return points


def searches_of(cfg: DictConfig) -> dict[str, list[SearchConfig]]:
    """The searches of each curve, by growing number of rounds.

    A method has a curve for each combination of the values that `search` lists for its parameters.

    Raises ValueError for what is no search of a policy, or has a deadline.
    """
    found = {}
    if empty := [key for key, value in cfg.search.items() if OmegaConf.is_list(value) and not value]:
        raise ValueError(f"search.{empty[0]}=[]: there must be one value at least")
    for name, method in parts.methods_of(cfg).items():
        read = parts.search_keys(method, cfg.search)
        listed = {key: cfg.search[key] for key in read if OmegaConf.is_list(cfg.search[key])}
        rounds = sorted(listed.pop("num_rounds", [cfg.search.num_rounds if "num_rounds" in read else 1]))
        for values in itertools.product(*listed.values()):
            chosen = dict(zip(listed, values, strict=True))
            curve = ", ".join([name, *(f"{key}={value}" for key, value in chosen.items())])
            searches = ({**cfg.search, **chosen, "num_rounds": count} for count in rounds)
            found[curve] = [parts.build_search(name, method, search) for search in searches]
    return found


def main() -> None:
    command.run(study, "study")


if __name__ == "__main__":
    main()
