"""A pool of experts: random instances that stay, and whose solutions are improved again and again.

The dataset is the pool: a queue of shards, the first of which was searched longest ago. Luo et al. 2025 learn from such
a pool (Boosting Neural Combinatorial Optimization for Large-Scale Vehicle Routing Problems).
"""

from __future__ import annotations

import torch

from gumbeldore.batches import take
from gumbeldore.interfaces import without_references
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler.methods import Method
from gumbeldore.training.dataset import Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.experts import load_sampling_policy, search_of_epoch, training_instances
from gumbeldore.training.incumbents import Incumbents, improve
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState


def sample_kept_instances(
    state: TrainState, settings: TrainSettings, search: Method, pool: SearchPool, execution: Execution
) -> tuple[Shard, dict[str, float]]:
    """The experts of those instances that are to be searched in the next epoch, and metrics.

    New instances, as long as the dataset has fewer than `settings.pool` of them; then its first shard, which is taken
    out: it has to be added again, at the end. A solution is replaced by a better one alone.

    Raises Stopped if the training is to end; the dataset then stays as it is.
    """
    assert settings.pool is not None
    load_sampling_policy(pool, state, settings)
    search = search_of_epoch(search, settings, state.epoch)
    room = settings.pool - len(state.dataset)
    known = [] if room > 0 else state.dataset.shards[:1]
    if known:
        instances = known[0].instances
    else:
        instances = take(training_instances(pool.problem, settings, execution.seed, state.epoch), slice(0, room))
    incumbents = Incumbents.of(pool.problem, [without_references(pool.problem, instances, "pool")], known)
    metrics = improve(incumbents, search, pool, state.epoch, execution)
    (shard,) = incumbents.shards(state.epoch + 1)
    if known:
        state.dataset.forget_first()
    costs = torch.cat([each.costs.double() for each in (*state.dataset.shards, shard)])
    return shard, {**metrics, "quality/best_cost": costs.mean().item()}
