"""Self-improvement training [GD, algorithm 1]: `python train.py problem=tsp`; `--help` lists what can be set.

`self_improvement` is the algorithm, and needs torch and numpy alone; `main` is the command, which needs Hydra.
"""

from __future__ import annotations

from typing import Any

from gumbeldore.benchmark import Benchmark
from gumbeldore.interfaces import Problem
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import generator
from gumbeldore.training.active_search import active_search
from gumbeldore.training.execution import Execution
from gumbeldore.training.expert_pool import search_pool
from gumbeldore.training.experts import sample_epoch
from gumbeldore.training.imitation import fit
from gumbeldore.training.recorder import Clock, EpochReport, Recorder, quality_metrics, usage_metrics
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate


def self_improvement(
    problem: Problem,
    state: TrainState,
    settings: TrainSettings,
    search: Method,
    pool: SearchPool,
    validation: list[Benchmark],
    recorder: Recorder,
    *,
    seed: int = 0,
    execution: Execution = Execution(),
) -> None:
    """Train until settings.epochs are done or `execution.stop()` holds [GD, algorithm 1].

    With `settings.patience`, so many epochs without a better policy end the training, too.

    With `settings.experts` the dataset is given, neither added to nor emptied (supervised training). With
    `settings.pool` it is a pool of instances that stay: those that were searched longest ago are searched again.
    A policy with random weights is not validated. It may be good greedily by chance although it samples at random: if
    the first trained policy had to beat it, training might go on sampling from random weights.
    Every random number comes from (seed, purpose, epoch): a training that goes on from a saved state repeats nothing
    and skips nothing.

    Arguments:
        state: the policy, the best policy, the optimiser, the experts
        search: how the best policy samples
        pool: where searches run, in this process or on workers
        validation: instances whose mean greedy cost decides which policy is the best
        recorder: writes checkpoints and metrics
    """
    sample = sample_epoch if settings.pool is None else search_pool
    while state.epoch < settings.epochs and not state.stale(settings.patience) and not execution.stop():
        clock = Clock()
        sampling: dict[str, float] = {}
        if settings.samples:  # sample: the best of the best policy's solutions of an instance is its expert
            try:
                experts, sampling = sample(problem, state, settings, search, pool, seed, execution)
            except Stopped:
                return
            state.dataset.add(*experts)
        size = len(state.dataset)  # before it may be cleared
        clock.lap("sampling")

        # imitate the experts' decisions
        imitation = fit(problem, state, settings, generator(seed, "batches", state.epoch), execution)
        if imitation.batches == 0:
            return  # stopped before it began: the policy is the old one
        clock.lap("training")

        # validate greedily, accept what is better
        pool.load(state.policy.state_dict())
        quality = validate(pool, validation, execution.progress)
        improved = state.accept(quality)
        clock.lap("validation")

        # save
        state.count(clock.total, imitation.batches, sampling)
        state.epoch += 1 if imitation.complete else 0
        if improved:
            recorder.best(state)
        if not imitation.complete:
            return  # the saved state is still that of the epoch before: a continued run does this epoch again
        if settings.samples and settings.pool is None and (improved or not settings.keep_experts):
            state.dataset.clear()  # those of worse policies, or of this epoch
        metrics = {**sampling, **imitation.metrics, **quality_metrics(quality, state), **usage_metrics(clock, state)}
        recorder.epoch(state, EpochReport(state.epoch, {**metrics, "training/dataset_size": size}, improved))


def train(cfg: Any) -> dict[str, float]:
    """Train as the configuration says; returns the metrics of the last complete epoch (empty if there was none)."""
    from gumbeldore.cli.training import open_training

    with open_training(cfg) as (arguments, recorder):
        if recorder.setup.settings.instances is None:
            self_improvement(**arguments, recorder=recorder)
        else:
            recorder.solutions(active_search(**arguments, recorder=recorder), arguments["state"])
    return recorder.metrics


def main() -> None:
    from gumbeldore.cli import command

    command.run(train, "train")


if __name__ == "__main__":
    main()
