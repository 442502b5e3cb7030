"""Which of two policies is the best from now on: by all validation instances, or by a race over them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.benchmark import Benchmark, by_benchmark
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.races.bounds import Normal
from gumbeldore.races.outcome import Outcome
from gumbeldore.races.racing import race
from gumbeldore.races.rewards import Rewards
from gumbeldore.races.settings import RaceSettings
from gumbeldore.runtime.stopping import Progress
from gumbeldore.seeding import generator
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import Quality, greedy_costs, quality_of, validate


class Judgement(NamedTuple):
    """What became of a trained policy."""

    improved: bool  # it is the best one from now on
    quality: Quality
    searches: int  # greedy ones, of an instance each


def judge(
    state: TrainState,
    pool: SearchPool,
    validation: list[Benchmark],
    settings: RaceSettings | None,
    seed: int,
    progress: Progress,
) -> Judgement:
    """Compare the trained policy greedily with the best one, and accept it if it is better.

    The first policy of a training is validated on all instances, since there is none to race with.

    Arguments:
        settings: of the race; None: all instances decide

    Raises ValueError naming an instance that the policy or the problem cannot deal with.
    """
    if settings is not None and len(state.best_costs):
        return _race(state, pool, validation, settings, seed, progress)
    pool.load(state.policy.state_dict())
    quality = validate(pool, validation, progress)
    return Judgement(state.accept(quality), quality, len(quality.each))


def policy_race(rewards: Rewards, count: int, settings: RaceSettings, seed: int, epoch: int) -> Outcome:
    """The race of the best policy (arm 0) and the trained one (arm 1) after an epoch.

    Arguments:
        rewards: minus the greedy costs of a policy
        count: of the validation instances
    """
    order, first = generator(seed, "validation race", epoch), settings.first_batch
    return race(rewards, 2, count, settings.delta, bound=Normal(), generator=order, first_batch=first)


def _race(
    state: TrainState,
    pool: SearchPool,
    validation: list[Benchmark],
    settings: RaceSettings,
    seed: int,
    progress: Progress,
) -> Judgement:
    """A race of the best policy, whose known costs are not computed again, and the trained one."""
    policies = state.best, state.policy  # of equally good ones the first wins
    costs = state.best_costs.clone(), torch.full_like(state.best_costs, torch.nan)
    unknown = sum(int(each.isnan().sum()) for each in costs)
    done = 0

    def rewards(arm: int, indices: Tensor) -> Tensor:
        nonlocal done
        missing = indices[costs[arm][indices].isnan()]
        if len(missing):
            pool.load(policies[arm].state_dict())
        for place, mine, rows in by_benchmark(validation, missing):
            costs[arm][missing[mine]] = greedy_costs(pool, validation[place].part(rows), progress, done, unknown)
            done += len(rows)
        return -costs[arm][indices]

    outcome = policy_race(rewards, len(state.best_costs), settings, seed, state.epoch)
    best, quality = (quality_of(pool.problem, validation, each) for each in costs)
    state.know_best(best)
    return Judgement(state.accept(quality, better=outcome.arm == 1), quality, done)
