"""Full disks, read-only folders, writes that end half-way and runs that want the same directory."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch

import train
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.files import atomic_write, write_text
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.training.dataset import PseudoExperts, Shard
from tests.helpers.commands import ROOT, done, typed
from tests.helpers.runs import metrics_of
from tests.helpers.solutions import random_experts

pytestmark = pytest.mark.slow

WORDS = ["debug=fast", "problem.num_nodes=6", "model.layers=1", "model.width=16", "model.feedforward=32"]
WORDS += ["precision=float32", "images_every=100", "train.epochs=4"]


@contextlib.contextmanager
def no_file_above(size):
    """The system refuses to write beyond so many bytes of a file, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


WRITERS = {  # what is written into a folder, and the name of the file
    "checkpoint": (lambda folder: checkpoint.save(folder / "last.pt", {"weights": torch.ones(9000)}), "last.pt"),
    "experts": (lambda folder: PseudoExperts(folder).add(Shard("epoch_1", *random_experts(200, 30))), "epoch_1.npz"),
    "results": (lambda folder: write_text(folder / "results.csv", "a,b\n" * 9000), "results.csv"),
}


@pytest.mark.parametrize("what", WRITERS)
def test_a_full_disk_leaves_the_earlier_file(what, tmp_path):
    write, name = WRITERS[what]
    (tmp_path / name).write_bytes(b"as it was")
    with no_file_above(5000), pytest.raises(OSError, match=f"cannot write: File too large: '{tmp_path / name}'"):
        write(tmp_path)
    assert contents(tmp_path) == {tmp_path / name: b"as it was"}
    write(tmp_path)
    assert (tmp_path / name).stat().st_size > 5000 and len(contents(tmp_path)) == 1


def test_a_full_disk_tears_no_line_that_counts(tmp_path):
    run = RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n")
    run.append_metrics({"epoch": 1})
    with no_file_above(20), pytest.raises(OSError, match=f"File too large: '{run.metrics}'"):
        run.append_metrics({"epoch": 2})
    run.forget_metrics_after(1)
    assert metrics_of(run.path) == [{"epoch": 1}]
    with no_file_above(3), pytest.raises(OSError, match="File too large: '.*/config.yaml'"):
        RunDirectory.create(tmp_path / "other", unique=False, config="a: 1\n")


def one_line(result, *parts):
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, result.stderr
    assert all(part in result.stderr for part in parts), result.stderr


def test_a_run_on_a_full_disk_ends_and_goes_on_when_there_is_room(tmp_path):
    assert typed(train, *WORDS, "train.epochs=2", "run_dir=full", cwd=tmp_path).returncode == 0
    last, config = tmp_path / "full/checkpoints/last.pt", tmp_path / "full/config.yaml"
    config.write_text(config.read_text().replace("epochs: 2", "epochs: 4"))  # the same run, stopped after two epochs
    before = last.read_bytes()
    with no_file_above(len(before) - 1):
        one_line(typed(train, "resume=full", cwd=tmp_path), "File too large: 'full/checkpoints/last.pt'")
    assert last.read_bytes() == before and not list(tmp_path.rglob("*.gumbeldore-tmp"))
    assert typed(train, "resume=full", cwd=tmp_path).returncode == 0


DIES_WRITING = """
import os, signal, sys
from pathlib import Path
from gumbeldore.runtime.files import atomic_write

with atomic_write(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def python(code, *words):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_killed_write_leaves_the_old_file_and_what_is_left_is_swept(tmp_path):
    run = RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n")
    run.dataset.mkdir()
    for path in (run.last, run.best, run.dataset / "epoch_1.npz", run.metrics):
        with atomic_write(path) as file:
            file.write(b"whole")
        assert python(DIES_WRITING, path).wait() == -signal.SIGKILL
        assert path.read_bytes() == b"whole" and path.with_name(f"{path.name}.gumbeldore-tmp").read_bytes() == b"half"
    with run:
        pass
    with RunDirectory.open(run.path):
        assert not list(run.path.rglob("*.gumbeldore-tmp")) and run.last.read_bytes() == b"whole"


# ---- one run per directory

TAKES = """
import sys, time
from pathlib import Path
from gumbeldore.runtime.run_directory import RunDirectory

while not Path(sys.argv[2]).exists():
    pass
try:
    run = RunDirectory.create(Path(sys.argv[1]), unique=sys.argv[3] == "unique", config="")
except (ValueError, OSError) as error:
    print(error)
else:
    print("mine", run.path.name, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("existing", [False, True])
def test_of_runs_that_start_together_one_gets_the_directory(tmp_path, existing):
    path = tmp_path / "run"
    if existing:
        path.mkdir()
    said = said_together(tmp_path, "this")
    assert sum(line.startswith("mine") for line in said) == 1
    assert all(re.search(f"mine|{path}.*(is not empty|in use by another run|exists)", line) for line in said), said


def said_together(folder, how):
    """What four processes say that want a directory at the same time."""
    processes = [python(TAKES, folder / "run", folder / "go", how) for _ in range(4)]
    (folder / "go").touch()
    try:
        return [process.stdout.readline() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_runs_named_by_the_time_get_a_directory_each(tmp_path):
    said = sorted(line.split()[1] for line in said_together(tmp_path, "unique"))
    assert said == ["run", "run-2", "run-3", "run-4"]


def test_a_run_is_continued_once_at_a_time_and_a_killed_one_at_once(tmp_path):
    words = [str(ROOT / "train.py"), *WORDS, "train.epochs=100000", "run_dir=run"]
    running = subprocess.Popen([sys.executable, *words], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        while not metrics_of(tmp_path / "run"):
            assert running.poll() is None
            time.sleep(0.02)
        one_line(typed(train, "resume=run", cwd=tmp_path), "run is in use by another run; wait for its end")
        one_line(typed(train, *WORDS, "run_dir=run", cwd=tmp_path), "run_dir=run is not empty")
        assert running.poll() is None
    finally:
        running.kill()
        running.wait()
    done(train, "resume=run", "time_limit=0.01", cwd=tmp_path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text.replace("  epochs:", "  restart_after: 0.25\n  epochs:"), "has train.restart_after"),
        (lambda text: re.sub("  gradient_clip: .*\n", "", text), "lacks train.gradient_clip"),
        (lambda text: re.sub("images_every: .*\n", "", text), "lacks images_every"),
    ],
)
def test_a_run_of_another_version_is_not_continued(edit, message, tmp_path):
    assert typed(train, *WORDS, "train.epochs=0", "run_dir=run", cwd=tmp_path).returncode == 0
    config = tmp_path / "run" / "config.yaml"
    config.write_text(edit(config.read_text()))
    result = typed(train, "resume=run", cwd=tmp_path)
    one_line(result, f"resume=run: another version made this run, run/config.yaml {message}")


def test_a_file_system_without_locks_and_a_system_without_them(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", flock)
        refused = typed(train, *WORDS, "run_dir=run", cwd=tmp_path)
    one_line(refused, "error: run cannot be locked: its file system has no locks (Function not implemented); choose a")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    refused = typed(train, *WORDS, "run_dir=other", cwd=tmp_path)
    one_line(refused, "error: other cannot be locked: gumbeldore runs on Linux and macOS only")
