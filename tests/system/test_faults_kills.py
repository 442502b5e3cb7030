"""Runs that are killed at random moments and resumed end like one that was left alone, bit by bit."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

import train
from gumbeldore.cli import run_recorder
from gumbeldore.runtime import checkpoint
from tests.helpers.commands import ROOT, typed
from tests.helpers.processes import killed_after
from tests.helpers.runs import check_same, metrics_of

WORDS = ["debug=fast", "problem.num_nodes=8", "model.layers=1", "model.width=16", "model.feedforward=32"]
WORDS += ["precision=float32", "images_every=100", "train.epochs=4", "train.batches_per_epoch=40"]
ACTIVE_SEARCH = ["train=active_search", f"train.instances={ROOT}/tests/data/ulysses16.tsp", "workers=0"]
POOL = ["train.pool=16", "method=reconstruct", "search.iterations=2", "workers=0"]


def whole_run(folder: Path, *words: str) -> float:
    """Train in folder/whole; returns the seconds it takes."""
    start = time.monotonic()
    assert killed_after("train", [*WORDS, *words, "run_dir=whole"], folder) == 0
    return time.monotonic() - start


def killed_and_resumed(folder: Path, seed: int, seconds: float, *words: str) -> None:
    """A run of about so many seconds, killed once or twice at random moments and resumed until it ends."""
    name, draw = f"killed{seed}", random.Random(seed)
    moments = [draw.uniform(0, seconds) for _ in range(1 + seed % 2)]
    for moment in [*moments, None]:
        ready = (folder / name / "checkpoints/last.pt").exists()
        if not ready:
            shutil.rmtree(folder / name, ignore_errors=True)  # nothing to go on from yet
        again = [f"resume={name}"] if ready else [*WORDS, *words, f"run_dir={name}"]
        status = killed_after("train", again, folder, moment)
        assert status in ((0, -9) if moment else (0,))


def check_kills(folder: Path, seeds: range, *words: str) -> None:
    seconds = whole_run(folder, *words)
    assert len(metrics_of(folder / "whole")) == 4
    for seed in seeds:
        killed_and_resumed(folder, seed, seconds, *words)
        check_same(folder / "whole", folder / f"killed{seed}")


@pytest.mark.slow
def test_killed_runs_end_like_one_left_alone(tmp_path):
    check_kills(tmp_path, range(2), "workers=0")


@pytest.mark.slow
def test_runs_killed_at_many_moments_end_like_one_left_alone(tmp_path):
    check_kills(tmp_path, range(2, 22), "workers=0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "words"),
    [(range(22, 26), ["workers=2"]), (range(26, 30), ["workers=1"])],
    ids=["two workers", "one"],
)
def test_killed_runs_with_workers_end_like_one_left_alone(seeds, words, tmp_path):
    check_kills(tmp_path, seeds, *words)


@pytest.mark.slow
def test_killed_active_searches_end_like_one_left_alone(tmp_path):
    check_kills(tmp_path, range(30, 32), *ACTIVE_SEARCH)
    runs = ("whole", "killed30", "killed31")
    assert len({(tmp_path / run / "results/results.csv").read_text() for run in runs}) == 1


@pytest.mark.slow
def test_killed_runs_with_a_pool_end_like_one_left_alone(tmp_path):
    check_kills(tmp_path, range(32, 36), *POOL)


@pytest.mark.parametrize("words", [ACTIVE_SEARCH, POOL], ids=["active search", "pool"])
def test_a_file_is_deleted_only_when_no_checkpoint_needs_it(words, tmp_path, monkeypatch):
    """Whenever last.pt is about to be replaced, where a kill would leave the one before."""
    save, missing = run_recorder.save, []

    def checked(path, *content, whole=False):
        if whole and path.exists():
            there = {file.stem for file in (path.parents[1] / "dataset").iterdir()}
            missing.append(set(checkpoint.load(path)["train_state"]["dataset"]) - there)
        save(path, *content, whole=whole)

    monkeypatch.setattr(run_recorder, "save", checked)
    result = typed(train, *WORDS, *words, "run_dir=run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(missing) >= 3 and not any(missing)
