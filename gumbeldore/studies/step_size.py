"""study=step_size: the best values of a search's settings, by a race: most values lose soon [MAB, algorithm 1]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from gumbeldore.evaluation.kept import Kept
from gumbeldore.evaluation.solved_sets import have_gaps, solve_set
from gumbeldore.instance_set import by_set, count_of, mean_reference
from gumbeldore.races.bounds import Normal
from gumbeldore.races.outcome import Outcome
from gumbeldore.races.racing import RaceSettings, race
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import generator
from gumbeldore.studies.study import About, Asked, ChosenMethod, Context, Shown, Study, Table

# Settings that decide how long a search is.
LENGTHS = ("beam_width", "num_rounds", "time_limit", "iterations", "equivalents", "replan_steps", "max_rounds")


@dataclass(frozen=True, kw_only=True)
class StepSize(Study[Method, Outcome]):
    """A race of all combinations of the values that `search` lists for one method: each of them is an arm."""

    lines: ClassVar[str] = "arms"
    race: RaceSettings = RaceSettings()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StepSize:
        """Raises ValueError also unless the keys of `race` are those of a race."""
        given, names = values["race"], [spec.name for spec in fields(RaceSettings)]
        if not isinstance(given, Mapping) or sorted(given) != sorted(names):
            raise ValueError(f"race must have the keys {' and '.join(names)}, got {given}")
        return cls(race=RaceSettings.of(given))

    def searches(self, methods: list[ChosenMethod]) -> list[Asked[Method]]:
        """The arms. Raises ValueError unless they are two at least, of one method, and equally long."""
        if len(methods) != 1:
            names = ",".join(method.name for method in methods)
            raise ValueError(f"study=step_size compares values of one search method, got method=[{names}]")
        for key, values in methods[0].lists.items():
            if key in LENGTHS:
                rule = "the searches that study=step_size compares must be equally long; give one value"
                raise ValueError(f"search.{key}=[{','.join(map(str, values))}]: {rule}")
        found = methods[0].combinations()
        if len(found) < 2:
            rule = "several values to compare, for example 'search.step_size=[0.1,0.3,1]'"
            raise ValueError(f"study=step_size needs {rule}")
        return found

    def measure(self, context: Context, searches: list[Asked[Method]]) -> Iterator[Outcome]:
        yield self._best(context, searches)

    def _best(self, context: Context, arms: list[Asked[Method]]) -> Outcome:
        """The arm whose best solutions are the best on average, over the instances of all sets together.

        A reward is minus the gap of the best solution of an instance, or minus its cost where not all have a reference.
        """
        pool, instance_sets, seed, kept, advancing = context
        relative, scale = have_gaps(instance_sets), mean_reference(instance_sets)
        advance = advancing("race, at most", instance_sets * len(arms))

        def rewards(arm: int, indices: Tensor) -> Tensor:
            found = torch.empty(len(indices), dtype=torch.float64)
            for place, mine, rows in by_set(instance_sets, indices):
                instance_set, parts = instance_sets[place], kept.parts(words_of(arms[arm]), place, *rows.tolist())
                advance(len(parts))
                costs = solve_set(pool, instance_set, arms[arm].search, seed, advance, parts, rows).costs
                found[mine] = instance_set.gaps(costs, rows, scale) if relative else costs
            return -found

        return race(
            rewards,
            len(arms),
            count_of(instance_sets),
            self.race.delta,
            bound=Normal(),
            generator=generator(seed, "race"),
            first_batch=self.race.first_batch,
        )

    def progress(
        self, kept: Kept, searches: list[Asked[Method]], found: list[Outcome], about: About
    ) -> tuple[int, str]:
        return kept.finished(), f"at most {len(searches) * about.num_instances}"

    def content(self, searches: list[Asked[Method]], found: list[Outcome], about: About) -> dict[str, Any]:
        (outcome,) = found
        quality = "mean gap" if about.gaps else "mean cost"
        arms = [
            {**arm.values, quality.replace(" ", "_"): -mean, "instances": count}
            for arm, mean, count in zip(searches, outcome.means.tolist(), outcome.counts.tolist(), strict=True)
        ]
        asked = {"delta": self.race.delta, "searches of the full grid": len(searches) * about.num_instances}
        chosen = {"chosen": searches[outcome.arm].values, "exact": outcome.exact, "searches": outcome.total}
        return {"quality": quality, **about._asdict(), **asked, **chosen, "arms": arms}

    def show(self, searches: list[Asked[Method]], found: list[Outcome], about: About) -> Shown:
        """Of each arm its values, the mean gap or cost of the instances looked at, and how many they are."""
        (outcome,) = found
        rows = [
            [*map(str, arm.values.values()), f"{-mean:.3%}" if about.gaps else f"{-mean:.4f}", str(count)]
            for arm, mean, count in zip(searches, outcome.means.tolist(), outcome.counts.tolist(), strict=True)
        ]
        header = [*searches[0].values, "gap" if about.gaps else "cost", "instances"]
        chosen = f"chosen: {words_of(searches[outcome.arm])} ({certainty(outcome, self.race.delta)})"
        work = f"searches: {outcome.total} of the {len(searches) * about.num_instances} of the full grid"
        return Shown([Table(about.title, header, rows)], about.compared, (chosen, work))


def words_of(arm: Asked[Method]) -> str:
    """Its values as they are typed."""
    return " ".join(f"search.{key}={value}" for key, value in arm.values.items())


def certainty(outcome: Outcome, delta: float) -> str:
    """How sure the choice is, in words."""
    equal = int((outcome.means == outcome.means[outcome.arm]).sum()) - 1
    sure = "exact, all instances were looked at" if outcome.exact else f"confidence {1 - delta:.4g}"
    return sure + (
        f"; {equal} other{'s are' if equal > 1 else ' is'} as good, the first of them is taken" if equal else ""
    )
