"""Self-improvement training [GD, algorithm 1]: `python train.py problem=tsp`; `--help` lists what can be set.

`self_improvement` is the algorithm, and needs torch and numpy alone; `main` is the command, which needs Hydra.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gumbeldore.instance_set import InstanceSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Method
from gumbeldore.seeding import generator
from gumbeldore.training.active_search import active_search
from gumbeldore.training.epoch import counted_epoch
from gumbeldore.training.execution import Execution
from gumbeldore.training.expert_pool import sample_kept_instances
from gumbeldore.training.experts import sample_new_instances
from gumbeldore.training.following import follow
from gumbeldore.training.imitation import fit
from gumbeldore.training.ranks import SINGLE_PROCESS, DDPRanks, Ranks, joined_ranks
from gumbeldore.training.settings import ActiveSearchSettings, SupervisedSettings, TrainSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.supervised import supervised
from gumbeldore.training.validation import validate


def self_improvement(
    state: TrainState,
    settings: TrainSettings,
    search: Method,
    pool: SearchPool,
    validation: list[InstanceSet],
    execution: Execution = Execution(),
) -> None:
    """Train until settings.epochs are done or `execution.stop()` holds [GD, algorithm 1].

    Training also ends after `settings.patience` epochs without a better policy. With `settings.pool` the dataset is a
    pool of instances that stay: an epoch searches the instances again that were searched longest ago.
    A policy with random weights is not validated. It may be good greedily by chance although it samples at random: if
    the first trained policy had to beat it, training might go on sampling from random weights.
    Every random number comes from (seed, purpose, epoch): a training that goes on from a saved state repeats nothing
    and skips nothing.

    Arguments:
        state: the policy, the best policy, the optimiser, the experts
        settings: of the algorithm
        search: how the best policy samples
        pool: where searches run, in this process or on workers; it knows the problem
        validation: instances whose mean greedy cost decides which policy is the best
        execution: seed, device, and who writes checkpoints and metrics
    """
    sample = sample_new_instances if settings.pool is None else sample_kept_instances
    while not (state.is_over(settings) or execution.stop()):
        with counted_epoch(state, settings, pool, validation, execution) as report:
            # sample: the best of the best policy's solutions of an instance is its expert
            experts, sampling = sample(state, settings, search, pool, execution)
            state.dataset.add(experts)
            report.lap("sampling", sampling)

            # imitate the experts' decisions
            draws = generator(execution.seed, "batches", state.epoch)
            report.lap("training", fit(pool.problem, state, settings, draws, execution))

            # validate greedily, accept what is better
            quality = validate(pool, state.policy, validation, execution.progress)
            report.improved = state.accept(quality)
            report.lap("validation", state.quality_metrics(quality))

            # forget the experts of worse policies; the end of the block saves
            if settings.pool is None and (report.improved or not settings.keep_experts):
                state.dataset.clear()


def train(cfg: Any, ranks: Ranks = SINGLE_PROCESS) -> dict[str, float]:
    """Train as the configuration says; returns the metrics of the last complete epoch (empty if there was none).

    Arguments:
        ranks: the processes that share each batch, of which this one is the first
    """
    from gumbeldore.cli.active_search import write_results
    from gumbeldore.cli.training import open_training

    with open_training(cfg, ranks) as opened:
        setup, state, pool, execution = opened.run.setup, opened.state, opened.run.pool, opened.execution
        match setup.settings:
            case TrainSettings() as settings:
                self_improvement(state, settings, setup.search, pool, setup.validation, execution)
            case SupervisedSettings() as settings:
                supervised(state, settings, pool, setup.validation, execution)
            case ActiveSearchSettings() as settings:
                found = active_search(state, settings, setup.search, pool, setup.validation, execution)
                write_results(opened.run, found, state)
    return opened.recorder.metrics


def main() -> None:
    from gumbeldore.cli import command

    with joined_ranks() as ranks:
        if isinstance(ranks, DDPRanks) and ranks.rank > 0:
            follow(ranks)
        else:
            command.run(partial(train, ranks=ranks), "train")


if __name__ == "__main__":
    main()
