"""The benchmarks run, and write figures that can be compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gumbeldore.runtime.precision
from benchmarks import machine
from benchmarks.training import decisions_to_come

ROOT = Path(__file__).parent.parent


def benchmark(*words):
    done = subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sampling", "case=tsp20"], "there is no case; sampling has cases"),
        (["sampling", "cases=tsp"], "a case is called like tsp100, cvrp50 or jssp10x10, not 'tsp'"),
        (["sampling", "rows=abc"], "rows must be an integer, got 'abc'"),
        (["sampling", "rows"], "rows: values are given as key=value"),
        (["quality", "problem=vrp"], "problem must be one of tsp, cvrp, jssp, got 'vrp'"),
    ],
)
def test_wrong_words_end_in_one_line(words, message):
    wrong = subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)
    assert wrong.returncode == 1 and wrong.stderr.startswith(f"error: {message}") and wrong.stderr.count("\n") == 1


def test_the_list():
    listed = benchmark()
    for path in (ROOT / "benchmarks").glob("[!_]*.py"):
        assert f"python -m benchmarks {path.stem}" in listed


def test_sampling(tmp_path):
    out = tmp_path / "sampling.json"
    words = ["cases=tsp20,jssp6x6", "rows=4", "beam=2", "rounds=2", "repeats=1", "threads=1"]
    printed = benchmark("sampling", *words, f"out={out}")
    figures = json.loads(out.read_text())["sampling"]
    assert list(figures) == ["tsp20 untrained", "jssp6x6 untrained"]
    for name, row in figures.items():
        assert name in printed and row["solutions_per_second"] > 0
        assert sum(row[part] for part in ("forward", "trie", "states", "beam")) == pytest.approx(1)
        assert 0 < row["gflops"] and 1 < row["evaluations_per_solution"] < 40
    assert "tsp20 untrained" in benchmark("compare", f"old={out}", f"new={out}")


def test_nothing_to_compare_is_an_error(tmp_path):
    (tmp_path / "empty.json").write_text("{}")
    empty = [f"{key}={tmp_path}/empty.json" for key in ("old", "new")]
    for words, message in (([], "Is a directory"), (empty, "is in both")):
        done = subprocess.run([sys.executable, "-m", "benchmarks", "compare", *words], cwd=ROOT, capture_output=True)
        assert done.returncode == 1 and message in done.stderr.decode() and b"Traceback" not in done.stderr


@pytest.mark.parametrize(("has_bf16", "timed"), [(True, ["float32", "bf16"]), (False, ["float32"])])
def test_bf16_is_timed_only_where_auto_would_choose_it(has_bf16, timed, monkeypatch, capsys):
    """Processors without its instructions emulate it for minutes."""
    asked = []
    monkeypatch.setattr(gumbeldore.runtime.precision, "has_bf16", lambda device: has_bf16)
    monkeypatch.setattr(machine, "matrix_peak", lambda precision, device: asked.append(precision) or 1.0)
    machine.main(torch.get_num_threads(), "cpu")
    assert asked == timed and [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == timed


@pytest.mark.parametrize(("took", "count"), [(0.1, 3), (40.0, 3), (41.0, 2), (61.0, 1), (500.0, 1)])
def test_turns_end_in_time(took, count, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now[0])
    turns = []
    for turn in machine.turns(3, seconds=120.0):
        turns.append(turn)
        now[0] += took
    assert turns == list(range(count))


def test_decisions_to_come():
    """Against the mean of many draws."""
    step = torch.randint(20, (200_000,), generator=torch.Generator().manual_seed(0))
    assert decisions_to_come(20, 19) == pytest.approx((20 - step).double().mean().item(), abs=0.05)


def test_training(tmp_path):
    out = tmp_path / "training.json"
    benchmark("training", "problems=tsp,jssp", "batches=2", "repeats=1", "threads=1", f"out={out}")
    for row in json.loads(out.read_text())["training"].values():
        assert row["tokens_per_second"] > row["examples_per_second"] > 0 and row["seconds_per_epoch"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["tsp100", "jssp"])
def test_an_epoch_of_the_paper(experiment, tmp_path):
    out = tmp_path / "epoch.json"
    words = "words=search.beam_width=2 search.num_rounds=1 train.batch_size=8 workers=0"
    benchmark("epoch", f"experiment={experiment}", "epochs=1", "share=0.0001", words, f"out={out}")
    figures = json.loads(out.read_text())
    assert figures["usage/seconds/sampling"] > 0 and figures["usage/seconds/training"] > 0
