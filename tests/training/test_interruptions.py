"""Trainings that are stopped or die, and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import train
from gumbeldore.cli.run_recorder import RunRecorder
from gumbeldore.cli.setup import set_up
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.validation import validate
from problems.tsp import TSP
from tests.helpers.commands import ROOT, configured, done
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.learners import Reports, new_learner, reports_of
from tests.helpers.runs import metrics_of, same_runs


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
    untrained = validate(SearchPool(setup.problem, setup.policy), setup.validation, lambda *_: None).cost
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
    monkeypatch.setattr(RunRecorder, "epoch", lambda *_: signal.raise_signal(signal.SIGINT))
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
    assert state.since_best == 0 and not state.over(TrainSettings(patience=1))
