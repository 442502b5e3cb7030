"""Epochs that are cut short: by a time limit, Ctrl-C or a termination signal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gumbeldore.instance_set import InstanceSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.training.execution import Execution
from gumbeldore.training.report import EpochReport
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate


@contextmanager
def epoch_of(
    state: TrainState, pool: SearchPool, validation: list[InstanceSet], execution: Execution
) -> Iterator[EpochReport]:
    """An epoch, which ends early without an error if the training is to stop.

    The saved state is then still the state after the epoch before: a continued training does this epoch again. A policy
    that was trained in part is validated, and saved as the best policy if it is better. The epoch's time counts.

    Arguments:
        validation: on which a policy may be the best one; empty: policies are not compared
    """
    report = EpochReport(state.epoch + 1)
    try:
        yield report
    except Stopped as stopped:
        report.lap("training" if stopped.batches else "sampling", stopped.metrics)
        if validation and stopped.batches:
            pool.load(state.policy.state_dict())
            if state.accept(validate(pool, validation, execution.progress)):
                execution.recorder.best(state)
            report.lap("validation", {})
        state.count(report, stopped.batches)
