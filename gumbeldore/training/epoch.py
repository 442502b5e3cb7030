"""An epoch of a training: its end, when it is complete, and when a time limit, Ctrl-C or a signal cuts it short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gumbeldore.instance_set import InstanceSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.training.execution import Execution
from gumbeldore.training.report import EpochReport
from gumbeldore.training.settings import ImitationSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate


@contextmanager
def counted_epoch(
    state: TrainState,
    settings: ImitationSettings,
    pool: SearchPool,
    validation: list[InstanceSet],
    execution: Execution,
) -> Iterator[EpochReport]:
    """An epoch, which is counted, saved and reported at its end. It ends early without an error if training is to stop.

    After an early end the saved state is still the state after the epoch before: a continued training does this epoch
    again. A policy that was trained in part is validated, and saved as the best policy if it is better. The epoch's
    time counts.

    Arguments:
        validation: on which a policy may be the best one; empty: policies are not compared
    """
    report = EpochReport(state.epoch + 1)
    try:
        yield report
    except Stopped as stopped:
        if validation and stopped.batches:
            if state.accept(validate(pool, state.policy, validation, execution.progress)):
                execution.recorder.save_best(state)
        report.lap("cut short", stopped.metrics)
        state.count_epoch(report, stopped.batches)
    else:
        state.complete(report, settings)
        if report.improved:
            execution.recorder.save_best(state)
        execution.recorder.save_epoch(state, report)
