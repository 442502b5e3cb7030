"""A small policy of the TSP that learns in seconds, the reports about it, and its searches by workers."""

from __future__ import annotations

import copy

import torch

from gumbeldore import SearchPool, methods
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.execution import Execution
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.recorder import Recorder
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validation_set
from models.bq_tsp import BQ
from problems.tsp import TSP
from train import self_improvement

IMITATION = {
    "epochs": 3,
    "batches_per_epoch": 12,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "learning_rate_end_factor": 0.1,
}
SIZES = {**IMITATION, "instances_per_epoch": 10, "nucleus_after": 0, "validation_instances": 40}
SEARCH = methods.Gumbeldore(4, 2, 0.3)


def network():
    torch.manual_seed(0)
    return BQ(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)


def new_learner(folder=None, **sizes):
    policy = network()
    optimizer = optimizer_of(policy, TrainSettings(**{**SIZES, **sizes}))
    return TrainState(policy, copy.deepcopy(policy), optimizer, PseudoExperts(folder))


class Reports(Recorder):
    """The reports of all complete epochs, after each of which `after` is called, and the costs of the best policies."""

    def __init__(self, after=lambda: None):
        self.all, self.saved, self.after = [], [], after

    def save_best(self, state):
        self.saved.append(state.best_cost)

    def save_epoch(self, state, report):
        self.all.append(report)
        self.after()


def reports_of(train_state, pool, /, search=SEARCH, stop=lambda: False, recorder=None, seed=5, **sizes):
    problem, recorder = TSP(7), recorder or Reports()
    settings = TrainSettings(**{**SIZES, **sizes})
    validation = validation_set(problem, settings.validation_instances, seed=0)
    execution = Execution(seed, recorder, stop=stop)
    self_improvement(train_state, settings, search, pool, validation, execution)
    return recorder.all


def trained(workers=0, search_batch_rows=12, **sizes):
    train_state = new_learner(**sizes)
    with SearchPool(TSP(7), train_state.policy, workers, search_batch_rows) as pool:
        reports = reports_of(train_state, pool, **sizes)
    return train_state, reports


def same_weights(a, b):
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


COUNT = 40  # instances that workers search


def found_by(problem, workers, policy=None, search_batch_rows=12):
    """The solutions of every instance, however the chunks came back; each exactly once."""
    with SearchPool(problem, policy or network(), workers, search_batch_rows) as pool:
        return of_all(pool)


def of_all(pool):
    instances = TSP(7).generate(COUNT, torch.Generator().manual_seed(0))
    chunks = dict((chunk.start, (chunk, found)) for chunk, found in pool.map(instances, torch.arange(COUNT), SEARCH))
    covered = [row for start in sorted(chunks) for row in range(chunks[start][0].start, chunks[start][0].stop)]
    assert covered == list(range(COUNT))
    return [torch.cat([getattr(chunks[start][1], field) for start in sorted(chunks)]) for field in ("actions", "costs")]
