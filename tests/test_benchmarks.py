"""The benchmarks run, and write figures that can be compared."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from models.parts import SIZES

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


@pytest.mark.parametrize("early", [1.0, 1.5])
def test_decisions_to_come(early):
    """Against the mean of many draws."""
    step = (torch.rand(200_000, generator=torch.Generator().manual_seed(0)) ** early * 20).long()
    assert decisions_to_come(20, 19, early) == pytest.approx((20 - step).double().mean().item(), abs=0.05)


def test_attention():
    printed = benchmark("attention", "shapes=2x5x2x8,3x4x1x16", "threads=1", "repeats=2").splitlines()
    assert printed[2].split()[0] == "2x5x2x8" and printed[3].split()[0] == "3x4x1x16"
    assert all(float(word.rstrip("x")) > 0 for line in printed[2:] for word in line.split()[1:])


def test_parts():
    row = benchmark("parts", "cases=jssp6x6", "rows=4", "threads=1").splitlines()[2].split()
    assert row[0] == "jssp6x6" and row[3] == "1.000" and all(float(share) > 0 for share in row[1:5])
    assert int(row[5].replace(",", "")) in SIZES


def test_training(tmp_path):
    out = tmp_path / "training.json"
    benchmark("training", "problems=tsp,jssp", "batches=2", "repeats=1", "threads=1", f"out={out}")
    for row in json.loads(out.read_text())["training"].values():
        assert row["tokens_per_second"] > row["examples_per_second"] > 0 and row["seconds_per_epoch"] > 0


@pytest.mark.parametrize("experiment", ["tsp100", pytest.param("jssp", marks=pytest.mark.slow)])
def test_an_epoch_of_the_paper(experiment, tmp_path):
    out = tmp_path / "epoch.json"
    words = "words=search.beam_width=2 search.num_rounds=1 train.batch_size=8 workers=0"
    benchmark("epoch", f"experiment={experiment}", "epochs=1", "share=0.0001", words, f"out={out}")
    figures = json.loads(out.read_text())
    assert figures["seconds/sampling"] > 0 and figures["seconds/training"] > 0
