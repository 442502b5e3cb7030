"""The best values of a search's settings, by a race over instances: most values lose soon [MAB, algorithm 1]."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.benchmark import Benchmark, by_benchmark, count_of, gaps_to
from gumbeldore.evaluation.benchmarks import have_gaps, solve_benchmark
from gumbeldore.evaluation.parts import Parts
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.races.bounds import Normal
from gumbeldore.races.outcome import Outcome
from gumbeldore.races.racing import race
from gumbeldore.races.settings import RaceSettings
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import generator
from gumbeldore.studies import tables


class Arm(NamedTuple):
    """A search with the values that are compared."""

    values: dict[str, Any]  # by key of `search`
    search: Method

    @property
    def words(self) -> str:
        """The values as they are typed."""
        return " ".join(f"search.{key}={value}" for key, value in self.values.items())


def best_arm(
    arms: list[Arm],
    pool: SearchPool,
    benchmarks: list[Benchmark],
    settings: RaceSettings,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
    parts: Callable[..., Parts] = lambda *names: Parts(),
) -> Outcome:
    """The arm whose best solutions are the best on average, over the instances of all benchmarks together.

    A reward is minus the gap of the best solution of an instance, or minus its cost where not all have a reference.

    Arguments:
        seed: decides the race's order; and with an instance's content the samples, as `solve_benchmark`
        progress: called with the number of searches finished since the last call
        parts: (arm, benchmark, instances) -> what was found for them earlier

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    relative = have_gaps(benchmarks)

    def rewards(arm: int, indices: Tensor) -> Tensor:
        found = torch.empty(len(indices), dtype=torch.float64)
        for place, mine, rows in by_benchmark(benchmarks, indices):
            benchmark, kept = benchmarks[place], parts(arms[arm].words, place, *rows.tolist())
            progress(len(kept))
            costs = solve_benchmark(pool, benchmark, arms[arm].search, seed, progress, kept, rows).costs
            found[mine] = gaps_to(benchmark.references[rows], costs) if relative else costs
        return -found

    return race(
        rewards,
        len(arms),
        count_of(benchmarks),
        settings.delta,
        bound=Normal(),
        generator=generator(seed, "race"),
        first_batch=settings.first_batch,
    )


def rows(arms: list[Arm], outcome: Outcome, gaps: bool) -> tuple[list[str], list[list[str]]]:
    """The table: of each arm its values, the mean gap or cost of the instances looked at, and how many they are."""
    lines = [
        [*map(str, arm.values.values()), f"{-mean:.3%}" if gaps else f"{-mean:.4f}", str(count)]
        for arm, mean, count in zip(arms, outcome.means.tolist(), outcome.counts.tolist(), strict=True)
    ]
    return [*arms[0].values, "gap" if gaps else "cost", "instances"], lines


def certainty(outcome: Outcome, delta: float) -> str:
    """How sure the choice is, in words."""
    equal = int((outcome.means == outcome.means[outcome.arm]).sum()) - 1
    sure = "exact, all instances were looked at" if outcome.exact else f"confidence {1 - delta:.4g}"
    return sure + (
        f"; {equal} other{'s are' if equal > 1 else ' is'} as good, the first of them is taken" if equal else ""
    )


def write(out_dir: Path, arms: list[Arm], outcome: Outcome, gaps: bool, about: dict[str, Any]) -> None:
    """study.json and study.csv."""
    quality = "mean gap" if gaps else "mean cost"
    each = [
        {**arm.values, quality.replace(" ", "_"): -mean, "instances": count}
        for arm, mean, count in zip(arms, outcome.means.tolist(), outcome.counts.tolist(), strict=True)
    ]
    chosen = {"chosen": arms[outcome.arm].values, "exact": outcome.exact, "searches": outcome.total}
    tables.write(out_dir, {"quality": quality, **about, **chosen, "arms": each}, each)
