"""A training in which a new network goes on from the experts of the one before (`train.restart_after`)."""

from __future__ import annotations

import copy
import json

import pytest

import train
from gumbeldore import self_improvement
from gumbeldore.imitation import fit, learning_rate
from gumbeldore.learner import Learner
from gumbeldore.settings import TrainSettings
from gumbeldore.workers import SearchPool
from problems.tsp import TSP
from tests.test_commands import typed
from tests.test_training import SIZES, new_learner, reports_of, same_weights, trained


def settings(**sizes):
    return TrainSettings(**{**SIZES, **sizes})


@pytest.mark.parametrize(
    ("after", "epochs", "stages"),
    [
        (None, 4, [range(4)] * 4),
        (0.5, 4, [range(2)] * 2 + [range(2, 4)] * 2),
        (0.3, 4, [range(2)] * 2 + [range(2, 4)] * 2),
        (0.01, 3, [range(1), range(1, 3), range(1, 3)]),
        (0.99, 3, [range(3)] * 3),
    ],
)
def test_epochs_of_each_network(after, epochs, stages):
    """The new one begins with the first epoch that is not before the share."""
    found = settings(epochs=epochs, restart_after=after)
    assert [found.stage(epoch) for epoch in range(epochs)] == stages


def test_the_rate_falls_for_each_network():
    found = settings(epochs=6, restart_after=0.5, learning_rate=0.9, final_learning_rate=0.1)
    assert [round(learning_rate(found, epoch), 6) for epoch in range(6)] == [0.9, 0.5, 0.1] * 2
    found = settings(epochs=3, learning_rate=0.9, final_learning_rate=0.1)
    assert [round(learning_rate(found, epoch), 6) for epoch in range(3)] == [0.9, 0.5, 0.1]


def before_each_epoch(monkeypatch, **sizes):
    """What each epoch's training began with, and the reports."""
    seen = []

    def watched(problem, learner, *others):
        states = [optimizer.state for optimizer in learner.optimizer.optimizers]
        policy, best = copy.deepcopy(learner.policy), copy.deepcopy(learner.best)
        seen.append((policy, best, sum(map(len, states)), len(learner.dataset)))
        return fit(problem, learner, *others)

    monkeypatch.setattr(self_improvement, "fit", watched)
    learner, reports = trained(epochs=4, averaging=0.9, forget=False, **sizes)
    return seen, learner, reports


def test_a_new_network_learns_from_the_experts_of_the_old_one(monkeypatch):
    first = new_learner().policy
    seen, learner, _ = before_each_epoch(monkeypatch, restart_after=0.5)
    fresh = [same_weights(policy, first) and not kept for policy, _, kept, _ in seen]
    assert fresh == [True, False, True, False]  # its weights, and what its optimizer remembers
    assert not same_weights(seen[2][1], first)  # the best one goes on sampling
    assert [experts for *_, experts in seen] == [10, 20, 30, 40]
    assert not same_weights(learner.policy, first)


def test_without_it_one_network_learns_throughout(monkeypatch):
    first = new_learner().policy
    seen, _, _ = before_each_epoch(monkeypatch)
    assert [same_weights(policy, first) for policy, *_ in seen] == [True, False, False, False]


def test_the_average_follows_the_new_network_at_once(monkeypatch):
    steps, average = [], Learner.average

    def watched(self, keep, step):
        steps.append(step)
        average(self, keep, step)

    monkeypatch.setattr(Learner, "average", watched)
    trained(epochs=4, batches_per_epoch=3, averaging=0.9, restart_after=0.5)
    assert steps == [*range(6)] * 2


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_a_continued_run_begins_anew_where_the_other_did(killed_after, tmp_path):
    whole, _ = trained(epochs=4, averaging=0.9, forget=False, restart_after=0.5)
    learner = new_learner(tmp_path)
    with SearchPool(TSP(7), learner.policy) as pool:
        for report in reports_of(learner, pool, epochs=4, averaging=0.9, forget=False, restart_after=0.5):
            if report.epoch == killed_after:
                break
    state, best = copy.deepcopy(learner.state_dict()), copy.deepcopy(learner.best.state_dict())
    again = new_learner(tmp_path)
    again.load_state_dict(state, best, type(learner.dataset.shards[0].instances))
    with SearchPool(TSP(7), again.policy) as pool:
        list(reports_of(again, pool, epochs=4, averaging=0.9, forget=False, restart_after=0.5))
    assert same_weights(again.policy, whole.policy) and same_weights(again.best, whole.best)


def test_all_processes_begin_anew(tmp_path):
    """Two that share out the batches end with the losses of one."""
    losses = []
    for trainers in (1, 2):
        words = ["problem.num_nodes=7", "debug=fast", "train.epochs=4", "train.restart_after=0.5", "precision=float32"]
        words += [f"trainers={trainers}", "trainer_threads=1", f"run_dir=run{trainers}"]
        done = typed(train, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lines = (tmp_path / f"run{trainers}/metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["training/loss"] for line in lines])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.parametrize(("value", "rule"), [(0, "above 0"), (1, "below 1 or null, got 1"), (1.5, "below 1 or null")])
def test_shares_that_mean_nothing_are_refused(value, rule):
    with pytest.raises(ValueError, match=f"train.restart_after must be .*{rule}"):
        settings(restart_after=value)
