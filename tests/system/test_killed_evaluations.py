"""Evaluations and solvers that are killed or stopped with their workers go on, and leave no process behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import evaluate
from problems.solvers import __main__ as experts
from tests.helpers.commands import ROOT, done
from tests.helpers.evaluations import rows_of
from tests.helpers.processes import killed_after

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
