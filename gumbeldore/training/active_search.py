"""Active search: self-improvement on given instances, each of which keeps the best solution ever found for it.

Bello et al. 2017 (Neural Combinatorial Optimization with Reinforcement Learning, section 4.2) adapt a policy to an
instance by policy gradients. Here the policy imitates the best solutions, as it does in training [GD, algorithm 1].
"""

from __future__ import annotations

import math

from gumbeldore.instance_set import InstanceSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import generator
from gumbeldore.training.epoch import counted_epoch
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.incumbents import Incumbents, improve
from gumbeldore.training.settings import ActiveSearchSettings
from gumbeldore.training.state import TrainState


def active_search(
    state: TrainState,
    settings: ActiveSearchSettings,
    search: Method,
    pool: SearchPool,
    instance_sets: list[InstanceSet],
    execution: Execution = Execution(),
) -> Incumbents:
    """Sample with the policy, keep the best solution ever of each instance, imitate these, again and again.

    Ends after `settings.epochs`, after `settings.patience` epochs without a better solution of any instance, or when
    `execution.stop()` holds. The arguments are those of `train.self_improvement`, but for:

        search: how the policy that is being trained samples
        instance_sets: the given instances, an InstanceSet for each size

    Returns the best solutions. The solutions of an epoch that was cut short are among them, and in the dataset,
    although a continued run repeats this epoch; a search with a reconstruction then begins from them.
    """
    problem = pool.problem
    incumbents = Incumbents.of(problem, instance_sets, state.dataset.shards)
    while not (state.is_over(settings) or execution.stop()):
        with counted_epoch(state, settings, pool, [], execution) as report:
            # sample, keep what is better
            pool.load(state.policy.state_dict())
            try:
                report.lap("sampling", improve(incumbents, search, pool, state.epoch, execution))
            finally:
                state.dataset.replace(incumbents.shards(state.epoch + 1))

            # imitate the best solutions
            imitation = fit(problem, state, settings, generator(execution.seed, "batches", state.epoch), execution)
            report.lap("training", imitation)

            # accept what is better
            report.improved = state.accept(incumbents.quality())
            quality = {"quality/best_cost": state.best_cost, "quality/best_gap": state.best_gap}
            report.metrics |= {name: value for name, value in quality.items() if not math.isnan(value)}
    return incumbents
