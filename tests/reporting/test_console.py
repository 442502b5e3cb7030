"""What a command says about its progress and the time it will take."""

from __future__ import annotations

import math
import re
import time

import pytest
import torch

import evaluate
import study
import train
from gumbeldore.interfaces import without_references
from gumbeldore.reporting.console import Terminal, duration, progress_line
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.training.experts import grows
from gumbeldore.training.report import EpochReport
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.solvers import __main__ as experts
from problems.tsp import TSP
from tests.helpers.commands import ROOT, done
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.trees import TreeProblem

EPOCH = {"usage/epoch_seconds": 4.0}
LARGER, EARLIER = "later instances are larger and take longer", "time_limit ends the training earlier"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 second"), (1.4, "1 second"), (119, "119 seconds"), (120, "2 minutes"), (540, "9 minutes")]
    + [(7199, "120 minutes"), (7200, "2 hours"), (200_000, "2 days")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("epoch", "epochs", "limit", "growing", "line"),
    [
        (1, 180, math.inf, False, "12 minutes for the other 179 epochs, at the pace of epoch 1"),
        (41, 180, math.inf, True, f"9 minutes for the other 139 epochs, at the pace of epoch 41; {LARGER}"),
        (1, 180, 300, False, f"12 minutes for the other 179 epochs, at the pace of epoch 1; {EARLIER}, in 5 minutes"),
        (1, 180, 720, False, "12 minutes for the other 179 epochs, at the pace of epoch 1"),
        (1, 2, math.inf, False, "4 seconds for the other epoch, at the pace of epoch 1"),
    ],
)
def test_the_line(epoch, epochs, limit, growing, line, capsys):
    Terminal().time_left(EpochReport(epoch, EPOCH, True), epochs, limit, growing)
    assert capsys.readouterr().out == f"about {line}\n"


def test_problems_that_grow():
    assert grows(TSP(20, grow=[8, 0.4]), 0.0) and grows(TSP(20, grow=[8, 0.4]), 0.3)
    assert not grows(TSP(20, grow=[8, 0.4]), 0.4)
    assert not grows(TSP(20), 0.0) and not grows(TreeProblem(), 0.0)
    assert grows(CVRP(20, [30, 30], grow=[8, 0.15]), 0.0) and not grows(CVRP(20, [30, 30]), 0.0)
    assert grows(JSSP([[6, 6]], [[6, 6]], grow=[[4, 4], 0.5]), 0.0) and not grows(JSSP([[6, 6]], [[6, 6]]), 0.0)


def test_seconds_left():
    assert Stopper().seconds_left() == math.inf
    assert 50 < Stopper(60).seconds_left() <= 60
    assert Stopper(1e-9).seconds_left() == 0


def lines(*words, cwd):
    return [line for line in done(train, *words, cwd=cwd).stdout.splitlines() if line.startswith("about ")]


@pytest.mark.slow
def test_a_training_and_a_continued_one_say_it_once_after_their_first_epoch(tmp_path, monkeypatch):
    words = ["debug=fast", "train.epochs=5", "problem.num_nodes=6", "problem.grow=null", "images_every=100"]
    words += ["model.layers=1", "model.width=16", "model.heads=2", "precision=float32"]
    (line,) = lines(*words, "run_dir=whole", cwd=tmp_path)
    assert line.endswith("for the other 4 epochs, at the pace of epoch 1")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_after(patch, batches=2 * 4 + 1)
        done(train, *words, "run_dir=killed", cwd=tmp_path)
    monkeypatch.setattr(Stopper, "seconds_left", lambda stopper: 0.0)
    (line,) = lines("resume=killed", cwd=tmp_path)
    assert line.endswith(f"for the other 2 epochs, at the pace of epoch 3; {EARLIER}, in 1 second")


@pytest.mark.parametrize(("run_dir", "logdir"), [("runs/tsp/first", "runs"), ("first", "first")])
def test_the_dashboard_is_that_of_all_runs_where_they_share_a_folder(run_dir, logdir, tmp_path):
    said = done(train, "debug=fast", "train.epochs=0", f"run_dir={run_dir}", cwd=tmp_path).stdout
    assert f"dashboards:  tensorboard --logdir {logdir}\n" in said


@pytest.mark.parametrize(
    ("done", "total", "seconds", "line"),
    [
        (0, 40, 60.0, "wor: 0 of 40"),
        (10, 40, 5.0, "wor: 10 of 40, 2/s, about 15 seconds left"),
        (3, 1000, 60.0, "wor: 3 of 1,000, 0.05/s, about 6 hours left"),
        (40, 40, 5.0, "wor: 40 of 40"),
        (0, None, 60.0, "wor"),
    ],
)
def test_the_line_about_progress(done, total, seconds, line):
    assert progress_line("wor", done, total, seconds) == line


def test_what_an_earlier_evaluation_has_done_counts_from_the_start(capsys, monkeypatch):
    monkeypatch.setattr("gumbeldore.reporting.console.SECONDS_BETWEEN_LINES", 0.1)
    instance_set = without_references(TSP(5), TSP(5).generate(8, torch.Generator().manual_seed(0)), "random")
    with Terminal() as terminal:
        terminal.advancing("wor", [instance_set], 6)
        time.sleep(0.25)
    assert capsys.readouterr().out.splitlines()[0] == "wor: 6 of 8"


SEARCHED = [f"checkpoint={ROOT}/pretrained/tsp20", "instances=kool/tsp20", "num_instances=20", "search_batch_rows=32"]
STUDIED = [*SEARCHED, "method=wor", "repetitions=2", "search.num_rounds=[2]", "search.top_p_start=1.0"]


@pytest.mark.parametrize(
    ("program", "words", "phase"),
    [
        pytest.param(evaluate, [*SEARCHED, "method=[greedy,wor]"], "wor: ", marks=pytest.mark.slow),
        pytest.param(study, STUDIED, "wor: ", marks=pytest.mark.slow),
        (train, ["debug=fast", "train.epochs=3", "images_every=9", "search_batch_rows=32"], "training: "),
        (experts, ["problem=jssp", "problem.sizes=[[6,6]]", "num_instances=3", "out=x.npz"], "solving: "),
    ],
    ids=["evaluate", "study", "train", "solvers"],
)
def test_every_command_tells_a_file_how_far_it_is(program, words, phase, tmp_path, monkeypatch):
    monkeypatch.setattr("gumbeldore.reporting.console.SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path))
    said = done(program, *words, "workers=0", cwd=tmp_path).stdout
    assert any(re.fullmatch(rf"{phase}\d+ of \d+, .*/s, .* left", line) for line in said.splitlines()), said
