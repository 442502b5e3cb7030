"""Supervised training: imitation of given solutions."""

from __future__ import annotations

from gumbeldore.instance_set import InstanceSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.seeding import generator
from gumbeldore.training.epoch import counted_epoch
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.settings import SupervisedSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate


def supervised(
    state: TrainState,
    settings: SupervisedSettings,
    pool: SearchPool,
    validation: list[InstanceSet],
    execution: Execution = Execution(),
) -> None:
    """Imitate the experts that the dataset holds, validate greedily, again and again.

    Arguments and end as those of `train.self_improvement`.
    """
    while not (state.is_over(settings) or execution.stop()):
        with counted_epoch(state, settings, pool, validation, execution) as report:
            # imitate the experts' decisions
            draws = generator(execution.seed, "batches", state.epoch)
            report.lap("training", fit(pool.problem, state, settings, draws, execution))

            # validate greedily, accept what is better
            quality = validate(pool, state.policy, validation, execution.progress)
            report.improved = state.accept(quality)
            report.lap("validation", state.quality_metrics(quality))
