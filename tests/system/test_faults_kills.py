"""Runs, evaluations and solvers that are killed go on and end like those left alone, bit by bit; no process is left."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import evaluate
import train
from gumbeldore.cli import run_recorder
from gumbeldore.runtime import checkpoint
from problems.solvers import __main__ as experts
from tests.helpers.commands import ROOT, done, typed
from tests.helpers.evaluations import rows_of
from tests.helpers.interruptions import killed_after
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
    ("seeds", "words"), [(range(22, 26), ["workers=2"]), (range(26, 30), ["workers=1"])], ids=["two workers", "one"]
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


# ---- evaluations and solvers

POLICY = f"checkpoint={ROOT}/pretrained/tsp20"


def processes() -> dict[int, int]:
    """The parent of every process that has not ended, but of Ray's agents: these outlive a kill for minutes."""
    lines = subprocess.run(["ps", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    found = (line.split(maxsplit=3) for line in lines.splitlines() if "Agent" not in line)
    return {int(pid): int(parent) for pid, parent, state, *_ in found if state[0] != "Z"}


def children_of(pid: int) -> set[int]:
    """All processes that a process has started, and that these have started."""
    parents, found, before = processes(), {pid}, set()
    while found != before:
        before, found = found, found | {each for each, parent in parents.items() if parent in found}
    return found - {pid}


def all_end(pids: set[int], seconds: float = 180) -> bool:  # two minutes after a SIGKILL for an agent of Ray 2.45
    end = time.monotonic() + seconds
    while (alive := pids & set(processes())) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive


def wait_for(condition, process, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)


WORKERS = [POLICY, "instances=kool/tsp20", "num_instances=12", "method=[greedy,wor]", "search.num_rounds=6"]
WORKERS += ["search_batch_rows=32", "precision=float32"]


@pytest.fixture(scope="module")
def searched_alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    done(evaluate, *WORKERS, "workers=0", "out_dir=out", cwd=folder)
    return rows_of(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_evaluation_and_it_goes_on(number, searched_alone, tmp_path):
    command = [sys.executable, ROOT / "evaluate.py", *WORKERS, "workers=2", "out_dir=out"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, text=True, **pipes)
    wait_for(lambda: len(list(tmp_path.rglob("*.npz"))) > 3, process)
    workers = children_of(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert len(workers) > 2 and all_end(workers)
    if number != signal.SIGKILL:
        assert process.returncode == 130 and len(said.splitlines()) == 1 and "searches are finished and kept" in said
        assert list((tmp_path / "out").rglob("report.html"))
    done(evaluate, *WORKERS, "workers=0", "out_dir=out", "resume=true", cwd=tmp_path)
    assert rows_of(tmp_path / "out") == searched_alone


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_solvers_end_with_their_command_and_it_goes_on(number, tmp_path, monkeypatch):
    pytest.importorskip("pyvrp")  # which needs Python 3.11
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))
    words = ["num_instances=6", "problem.num_nodes=10", "time_limit=1", "workers=2", "out=x.npz"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "problems.solvers", *words]
    process = subprocess.Popen(command, cwd=tmp_path, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes)
    wait_for(lambda: list((tmp_path / "cache").rglob("*.npz")), process)
    workers = children_of(process.pid)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "of 6 are solved and kept; the same command solves the others\n" in said
    assert len(said.splitlines()) == 1 and all_end(workers)
    done(experts, *words[:-2], "workers=0", "out=x.npz", cwd=tmp_path)


LONG = [POLICY, "instances=kool/tsp20", "num_instances=40", "method=[greedy,wor,gumbeldore]", "search_batch_rows=64"]
LONG += ["precision=float32", "workers=0"]


@pytest.mark.slow
def test_evaluations_killed_at_ten_moments_end_like_one_left_alone(tmp_path):
    """Five evaluations of 40 instances, each killed twice; the number of moments that come too late is small."""
    start = time.monotonic()
    assert killed_after("evaluate", [*LONG, "out_dir=whole"], tmp_path) == 0
    seconds, draw, killed = time.monotonic() - start, random.Random(1), 0
    for number in range(5):
        words = [*LONG, f"out_dir=killed{number}", "resume=true"]
        for _ in range(2):
            ended = killed_after("evaluate", words, tmp_path, draw.uniform(0, 0.8 * seconds))
            killed += ended == -signal.SIGKILL
            seconds *= 0.7 if ended == 0 else 1  # the machine has less else to do than it had before
        assert killed_after("evaluate", words, tmp_path) == 0
        assert rows_of(tmp_path / f"killed{number}") == rows_of(tmp_path / "whole")
        assert not list((tmp_path / f"killed{number}").rglob("*.gumbeldore-tmp"))
    assert killed >= 5
