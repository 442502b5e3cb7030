"""The training loop: what it learns and keeps, which policy is the best, and how it goes on after a stop or a death."""

from __future__ import annotations

import copy
import math
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import train
from gumbeldore.cli.run_recorder import RunRecorder
from gumbeldore.cli.setup import set_up
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.seeding import fold
from gumbeldore.training import experts as pseudo_experts
from gumbeldore.training.experts import sample_experts
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.validation import quality_of, validate, validation_set
from problems.tsp import TSP
from tests.helpers.commands import ROOT, configured, done
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.learners import SEARCH, SIZES, Reports, new_learner, reports_of, same_weights, trained
from tests.helpers.runs import metrics_of, same_runs


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing():
    (alone, reports), (together, others) = trained(workers=0), trained(workers=2)
    assert same_weights(alone.policy, together.policy) and same_weights(alone.best, together.best)
    for a, b in zip(reports, others, strict=True):
        for name, value in a.metrics.items():
            assert "second" in name or b.metrics[name] == value, name


def test_training_improves_and_best_is_strictly_the_best():
    train_state, reports = trained(epochs=6, batches_per_epoch=60, learning_rate=5e-3)
    policy, validation = new_learner().policy, validation_set(TSP(7), SIZES["validation_instances"], seed=0)
    with SearchPool(TSP(7), policy) as pool:
        untrained = validate(pool, policy, validation, lambda *_: None).cost
    costs = [report.metrics["quality/greedy_cost"] for report in reports]
    bests = [report.metrics["quality/best_greedy_cost"] for report in reports]
    assert bests == [min(costs[: i + 1]) for i in range(6)]
    assert bests[-1] < 0.85 * untrained
    size = 0
    for before, report, cost in zip([math.inf, *bests], reports, costs, strict=False):
        assert report.improved == (cost < before)
        assert report.metrics["training/dataset_size"] == size + 10
        size = 0 if report.improved else size + 10  # emptied only then
    assert len(train_state.dataset) == size and 1 < sum(report.improved for report in reports) < 6


def test_every_epoch_of_every_seed_has_its_own_instances_and_batches(monkeypatch):
    """Six different ones in three epochs with two seeds; with the same seed the same ones again."""
    coords, seeds = [], []
    instances, fit = pseudo_experts.training_instances, train.fit

    def watched_instances(*arguments):
        found = instances(*arguments)
        coords.append(found.coords.sum().item())
        return found

    def watched_fit(problem, state, settings, draws, execution):
        seeds.append(draws.initial_seed())
        return fit(problem, state, settings, draws, execution)

    monkeypatch.setattr(pseudo_experts, "training_instances", watched_instances)
    monkeypatch.setattr(train, "fit", watched_fit)
    for seed in (5, 6, 5):
        train_state = new_learner()
        reports_of(train_state, SearchPool(TSP(7), train_state.policy), seed=seed, batches_per_epoch=1)
    for seen in (coords, seeds):
        assert len(seen) == 9 and len(set(seen[:6])) == 6 and seen[6:] == seen[:3]


@pytest.mark.parametrize(
    "changes", [{"learning_rate": 5e-3}, {"learning_rate_end_factor": 0.5}, {"gradient_clip": 1e-3}]
)
def test_every_setting_of_the_training_matters(changes):
    def weights(**sizes):
        train_state = new_learner(**sizes)
        reports_of(train_state, SearchPool(TSP(7), train_state.policy), **sizes)
        return train_state.policy

    assert not same_weights(weights(), weights(**changes))


@pytest.mark.parametrize("patience", [1, 3])
def test_training_ends_after_some_epochs_without_a_better_policy(patience):
    """Steps that change next to nothing: the first trained policy is accepted, no other one is better."""
    train_state, reports = trained(epochs=9, learning_rate=1e-30, patience=patience)
    assert [report.improved for report in reports] == [True] + [False] * patience
    assert train_state.since_best == patience


def test_stopping_keeps_what_is_complete():
    """After a stop before the first batch nothing has changed; after a later one the policy is validated."""
    for calls, shards, validated in ((2, 0, False), (5, 1, False), (6, 1, True)):
        train_state, recorder, left = new_learner(), Reports(), iter(range(calls))
        reports_of(
            train_state,
            SearchPool(TSP(7), train_state.policy, search_batch_rows=20),
            stop=lambda left=left: next(left, None) is None,
            recorder=recorder,
            batches_per_epoch=40,
        )
        assert recorder.all == [] and train_state.epoch == 0 and len(train_state.dataset.shards) == shards
        assert recorder.saved == ([train_state.best_cost] if validated else [])
        assert (train_state.best_cost < math.inf) == validated == (train_state.totals["batches"] > 0)


@pytest.mark.parametrize("with_best", [True, False])
def test_experts_come_from_the_best_policy_or_the_current_one(with_best):
    """Each epoch's, sampled again with the policy that was the best, or the current one, when the epoch began."""
    train_state = new_learner()
    policies = (train_state.best, train_state.policy) if with_best else (train_state.policy, train_state.best)
    best, others = ([copy.deepcopy(policy.state_dict())] for policy in policies)

    def after():
        for weights, policy in zip((best, others), policies, strict=True):
            weights.append(copy.deepcopy(policy.state_dict()))

    pool = SearchPool(TSP(7), train_state.policy)
    train_state.dataset.clear = lambda: None
    sizes = {"epochs": 6, "learning_rate": 5e-3, "sample_with_best": with_best}
    reports_of(train_state, pool, recorder=Reports(after), **sizes)

    def same(epoch, weights):
        pool.load(weights)
        shard, keys = train_state.dataset.shards[epoch], fold(5, "sampling", epoch, torch.arange(10))
        return torch.equal(sample_experts(pool, shard.instances, keys, SEARCH)[0].actions, shard.actions)

    assert [same(epoch, best[epoch]) for epoch in range(6)] == [True] * 6
    assert not same(5, best[0]) and not all(same(epoch, others[epoch]) for epoch in range(6))


def test_experts_that_are_not_kept_are_imitated_in_their_own_epoch_alone():
    train_state, reports = trained(epochs=6, learning_rate=5e-3, keep_experts=False)
    assert not all(report.improved for report in reports[1:])  # they would have been kept
    assert [report.metrics["training/dataset_size"] for report in reports] == [10] * 6
    assert len(train_state.dataset) == 0


# ---- how good a policy is greedily


def test_the_gap_is_that_of_the_instances_that_have_a_reference():
    (instance_set,) = validation_set(TSP(5), 3, seed=0)
    costs = torch.tensor([2.0, 3.0, 5.0], dtype=torch.float64)
    for known, gap in (([1.0, math.nan, 4.0], 0.625), ([math.nan] * 3, math.nan)):
        references = torch.tensor(known, dtype=torch.float64)
        quality = quality_of(TSP(5), [instance_set._replace(references=references)], [costs])
        assert quality.gap == pytest.approx(gap, nan_ok=True) and quality.cost == pytest.approx(10 / 3)
        assert quality.costs == {}


def test_the_cost_is_the_mean_over_the_instances_of_all_sizes():
    sizes = [*validation_set(TSP(7), 1, seed=0), *validation_set(TSP(5), 3, seed=0)]
    costs = [torch.tensor([6.0], dtype=torch.float64), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)]
    quality = quality_of(TSP(7), sizes, costs)
    assert quality.cost == 3 and quality.costs == {"7": 6, "5": 2}


# ---- stops and deaths


def test_the_first_signal_after_the_time_limit_is_the_first():
    with Stopper(1e-9) as stopper:
        time.sleep(1e-3)
        assert stopper() and stopper.reason == "time limit reached"
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)


JSSP4X3 = ["problem=jssp", "problem.sizes=[[4,3],[3,4]]", "problem.validation_sizes=[[4,3]]", "model.blocks=1"]
CVRP7 = ["problem=cvrp", "problem.num_customers=7", "problem.capacity=[15,20]", "model.layers=1"]


@pytest.mark.parametrize(
    ("words", "share"), [pytest.param(CVRP7, 0.97, id="cvrp"), pytest.param(JSSP4X3, 0.9, id="jssp")]
)
@pytest.mark.slow
def test_other_problems_improve_and_continue_exactly(words, share, tmp_path, monkeypatch):
    """One run goes through, the other dies while it trains in its third epoch, and is resumed."""
    words = [*words, "debug=fast", "images_every=100", "precision=float32", "model.width=16", "model.heads=2"]
    words += ["train.epochs=3", "train.batches_per_epoch=30", "train.batch_size=64", "train.validation_instances=200"]
    done(train, *words, "run_dir=whole", cwd=tmp_path)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_after(patch, batches=75)
        done(train, *words, "run_dir=died", cwd=tmp_path)
    assert len(metrics_of(tmp_path / "died")) == 2
    done(train, "resume=died", cwd=tmp_path)
    same_runs(tmp_path / "whole", tmp_path / "died", epochs=3)
    left = checkpoint.load(tmp_path / "whole/checkpoints/last.pt")["train_state"]["dataset"]
    assert sorted(path.stem for path in (tmp_path / "whole/dataset").iterdir()) == left  # the forgotten ones are gone
    setup = set_up(configured("train", *words))
    pool = SearchPool(setup.problem, setup.policy)
    untrained = validate(pool, setup.policy, setup.validation, lambda *_: None).cost
    assert metrics_of(tmp_path / "whole")[-1]["quality/best_greedy_cost"] < share * untrained


@pytest.mark.slow
def test_interrupting_ends_cleanly(tmp_path):
    words = ["debug=fast", "images_every=100", "model.layers=2", "train.epochs=100000", "run_dir=run"]
    command, out = [sys.executable, str(ROOT / "train.py"), *words], subprocess.PIPE
    run = subprocess.Popen(command, cwd=tmp_path, stdout=out, stderr=subprocess.STDOUT)
    while not metrics_of(tmp_path / "run"):
        assert run.poll() is None, run.communicate()[0].decode()
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    output = run.communicate()[0].decode()
    assert run.returncode == 0 and "interrupted" in output and "resume=run" in output
    assert checkpoint.load(tmp_path / "run" / "checkpoints" / "last.pt")["epoch"] >= 1


def test_an_interruption_after_the_last_epoch_leaves_nothing_to_continue(tmp_path, monkeypatch):
    monkeypatch.setattr(RunRecorder, "save_epoch", lambda *_: signal.raise_signal(signal.SIGINT))
    words = ["debug=fast", "problem.num_nodes=6", "train.epochs=1", "workers=0", "run_dir=run"]
    said = done(train, *words, cwd=tmp_path).stdout
    assert "finished\n" in said and "continue:" not in said


def test_an_epoch_that_is_cut_short_is_none_without_a_better_policy():
    """With patience=1 the run is not over: the second epoch begins again."""
    state, left = new_learner(learning_rate=1e-30), []
    recorder = Reports(after=lambda: left.extend([False] * 6))  # until the first batch is trained
    reports_of(
        state,
        SearchPool(TSP(7), state.policy, search_batch_rows=20),
        stop=lambda: bool(recorder.all) and not (left and left.pop() is False),
        recorder=recorder,
        learning_rate=1e-30,
        patience=1,
    )
    assert len(recorder.all) == 1 and state.totals["batches"] == 12 + 1
    assert state.since_best == 0 and not state.is_over(TrainSettings(patience=1))
