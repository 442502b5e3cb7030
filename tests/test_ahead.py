"""Sampling the next epoch's experts during training: what it changes, and that nothing else does."""

from __future__ import annotations

import copy
import functools
import threading

import pytest
import torch

import train
from gumbeldore import imitation
from gumbeldore.ahead import Ahead
from gumbeldore.self_improvement import sample_epoch
from gumbeldore.settings import TrainSettings
from gumbeldore.workers import SearchPool, WorkerError, resolve_threads, resolve_workers
from problems.tsp import TSP
from tests.test_commands import compose, typed
from tests.test_supervised import NETWORK, WORDS, Killed, dies_after, experts, metrics_of, same_runs
from tests.test_training import SEARCH, SIZES, new_learner, reports_of, same_weights


def nothing(*_):
    pass


# ---- work beside other work


def test_work_elsewhere_goes_on_at_once_and_otherwise_waits_to_be_asked_for():
    begun = threading.Event()

    def work(progress, stop):
        begun.set()
        return threading.current_thread()

    with Ahead(work, True, nothing, lambda: False) as ahead:
        assert begun.wait(60)
        assert ahead.result() is not threading.current_thread()
    with Ahead(None, True, nothing, lambda: False) as ahead:
        assert ahead.result() is None
    begun.clear()
    with Ahead(work, False, nothing, lambda: False) as ahead:
        assert not begun.wait(0.1)
        assert ahead.result() is threading.current_thread()


@pytest.mark.parametrize("elsewhere", [True, False])
def test_what_the_work_raises_is_raised(elsewhere):
    def work(progress, stop):
        raise WorkerError("out of ink")

    with pytest.raises(WorkerError, match="out of ink"), Ahead(work, elsewhere, nothing, lambda: False) as ahead:
        ahead.result()


def test_whoever_leaves_stops_the_work():
    ended = threading.Event()

    def work(progress, stop):
        while not stop():
            pass
        ended.set()

    with pytest.raises(ZeroDivisionError), Ahead(work, True, nothing, lambda: False):
        raise ZeroDivisionError
    assert ended.is_set()


def test_progress_is_told_while_somebody_waits():
    told, go, first = [], threading.Event(), threading.Event()

    def work(progress, stop):
        progress("sampling", 1, 3)
        first.set()
        go.wait(60)
        progress("sampling", 2, 3)

    with Ahead(work, True, lambda *what: told.append(what), lambda: False) as ahead:
        assert first.wait(60)
        threading.Timer(0.1, go.set).start()
        ahead.result()
    assert told == [("sampling", 2, 3)]


# ---- training


def ahead_of(workers, **sizes):
    learner = new_learner()
    sizes = {"dataset_capacity": 20, **sizes}
    with SearchPool(TSP(7), learner.policy, workers, chunk_rows=12) as pool:
        return learner, list(reports_of(learner, pool, sample_ahead=True, forget=False, **sizes))


def test_the_number_of_workers_changes_nothing():
    (alone, reports), *others = (ahead_of(workers) for workers in (0, 1, 2))
    for learner, told in others:
        assert same_weights(alone.policy, learner.policy) and same_weights(alone.best, learner.best)
        for a, b in zip(reports, told, strict=True):
            assert a.metrics.keys() == b.metrics.keys()
            assert all(b.metrics[name] == value for name, value in a.metrics.items() if "second" not in name)
    assert alone.totals["solutions"] == 3 * 10 * 8  # those of the last epoch's successor are not sampled
    assert [("sampling/solutions" in report.metrics) for report in reports] == [True, True, False]


@pytest.mark.parametrize("workers", [0, 1])
def test_experts_come_from_the_best_policy_of_the_epoch_before(workers, tmp_path):
    """Each epoch's, sampled again with the policy that was the best when the epoch before began."""
    problem, learner = TSP(7), new_learner(tmp_path)
    settings = TrainSettings(**SIZES)
    best = [copy.deepcopy(learner.best.state_dict())]
    with SearchPool(problem, learner.policy, workers, chunk_rows=12) as pool:
        changes = {"sample_ahead": True, "forget": False, "batches_per_epoch": 60, "epochs": 4}
        for report in reports_of(learner, pool, **changes):
            assert learner.sampled == min(report.epoch + 1, 4)
            best.append(copy.deepcopy(learner.best.state_dict()))
        found = {shard.name: shard.actions for shard in learner.dataset.shards}
        assert len(found) == 4
        again = functools.partial(sample_epoch, problem, settings, SEARCH, pool, 5)
        for epoch in range(4):
            pool.load(best[max(0, epoch - 1)])
            shard, _ = again(epoch, nothing, lambda: False)
            assert torch.equal(found[shard.name], shard.actions)
        pool.load(best[3])
        assert not torch.equal(found[shard.name], again(3, nothing, lambda: False)[0].actions)


def test_forgetting_spares_what_was_sampled_meanwhile():
    learner, forgot = new_learner(), 0
    with SearchPool(TSP(7), learner.policy) as pool:
        for report in reports_of(learner, pool, sample_ahead=True, forget=True, batches_per_epoch=60, epochs=4):
            names = [shard.name for shard in learner.dataset.shards]
            if report.improved and report.epoch < 4:
                assert names == [f"epoch_{report.epoch + 1:06d}"]
                forgot += 1
    assert report.epoch == 4 and forgot


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stop_while_waiting_for_samples_leaves_the_epoch_incomplete(workers):
    learner, stopped = new_learner(), threading.Event()
    with SearchPool(TSP(7), learner.policy, workers, chunk_rows=12) as pool:
        search = pool.map_all

        def map_all(instances, keys, configs, stop, *read):
            if learner.sampled == 1 and len(keys) == SIZES["instances_per_epoch"]:
                stopped.set()  # while the second epoch's experts are sampled
            return search(instances, keys, configs, stop, *read)

        pool.map_all = map_all
        reports = list(reports_of(learner, pool, sample_ahead=True, stop=stopped.is_set))
    assert [report.complete for report in reports] == [False] and learner.sampled == 1


def test_a_bad_step_ends_the_run_and_the_sampling(monkeypatch):
    def bad(*_):
        raise ValueError("step 3 cannot be learnt from")

    monkeypatch.setattr(imitation, "_refuse_bad_steps", bad)
    learner = new_learner()
    before = threading.active_count()
    with SearchPool(TSP(7), learner.policy, workers=1) as pool, pytest.raises(ValueError, match="step 3"):
        list(reports_of(learner, pool, sample_ahead=True))
    assert threading.active_count() <= before + 1  # Ray's own


def test_sampling_that_fails_ends_the_run():
    learner = new_learner()
    with SearchPool(TSP(7), learner.policy, workers=1) as pool:
        search = pool.map

        def map_(*arguments):
            if learner.sampled:
                raise WorkerError("no room for a worker")
            return search(*arguments)

        pool.map = map_
        with pytest.raises(WorkerError, match="no room"):
            list(reports_of(learner, pool, sample_ahead=True))


# ---- the command


COMMAND = ["problem=tsp", "problem.num_nodes=6", "model.layers=1", "model.width=16", "model.heads=2", "debug=fast"]
COMMAND += ["precision=float32", "images_every=100", "train.epochs=4", "train.batches_per_epoch=30"]
COMMAND += ["train.sample_ahead=true", "train.forget=true"]


@pytest.mark.parametrize(("batches", "complete"), [(10, 0), (75, 2)], ids=["first epoch", "third"])
def test_a_run_that_died_continues_exactly(batches, complete, tmp_path, monkeypatch):
    """What was sampled ahead is in the checkpoint's dataset; what the death cut off is sampled again."""
    whole = typed(train, *COMMAND, "run_dir=whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_after(patch, batches)
        typed(train, *COMMAND, "run_dir=died", "workers=1", cwd=tmp_path)
    assert len(metrics_of(tmp_path / "died")) == complete
    resumed = typed(train, "resume=died", "workers=0", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    same_runs(tmp_path / "whole", tmp_path / "died", epochs=4)


def test_given_experts_are_all_there_is(tmp_path):
    """The switch, of a preset, say, does nothing then: nothing is sampled, and training has all cores."""
    words = [*WORDS["cvrp"], "debug=fast", "train=supervised", f"train.experts={experts(tmp_path, 'cvrp')}"]
    cfg = compose("train", *words, *NETWORK, f"run_dir={tmp_path / 'run'}", "train.sample_ahead=true", "workers=0")
    setup = train.set_up(cfg)
    assert not setup.settings.samples_ahead and setup.threads == torch.get_num_threads()
    assert train.train(cfg)["totals/solutions"] == 0


def test_cores_are_shared_between_sampling_and_training(monkeypatch):
    monkeypatch.setattr("gumbeldore.cluster.available_cores", lambda: 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    cpu = torch.device("cpu")
    assert resolve_threads("auto", 2, samples_ahead=False) == 4 and resolve_threads("auto", 2, samples_ahead=True) == 1
    assert resolve_threads(3, 2, samples_ahead=True) == 3
    assert resolve_workers("auto", cpu, 1, taken=1) == 7 and resolve_workers("auto", cpu, 2, taken=3) == 2
    assert resolve_workers("auto", cpu, 1, taken=9) == 1
    for wrong in (0, True, "many", 1.5):
        with pytest.raises(ValueError, match="trainer_threads must be"):
            resolve_threads(wrong, 1, samples_ahead=False)
