"""The directory of a run: its metrics, and what is said of its checkpoint."""

from __future__ import annotations

import json
import os

import pytest

from gumbeldore.cli.resume import resumable
from gumbeldore.runtime.run_directory import RunDirectory


def test_metrics_after_the_checkpoint_are_forgotten(tmp_path):
    run = RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n")
    for epoch in (1, 2, 3):
        run.append_metrics({"epoch": epoch})
    with open(run.metrics, "a") as file:
        file.write('{"epoch": 4, "qua')
    run.forget_metrics_after(2)
    assert [json.loads(line)["epoch"] for line in run.metrics.read_text().splitlines()] == [1, 2]
    with pytest.raises(ValueError, match="not empty"):
        RunDirectory.create(tmp_path / "run", unique=False, config="")
    assert RunDirectory.create(tmp_path / "run", unique=True, config="").path.name == "run-2"


def test_lines_of_others_among_the_metrics_stay(tmp_path):
    run = RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n")
    mine = b"[" * 100_000 + b"\n"
    mine += b'note\n3\n["epoch"]\n{"epoch": "first"}\n\n\xff\n{"epoch": 1}\n'
    run.metrics.write_bytes(mine + b'{"epoch": 3}\nno end')
    run.forget_metrics_after(2)
    assert run.metrics.read_bytes() == mine + b"no end\n"


@pytest.mark.parametrize("content", [None, b"torn"])
def test_a_checkpoint_is_called_intact_only_if_it_is(content, tmp_path):
    with RunDirectory.create(tmp_path / "run", unique=False, config="") as run:
        if content:
            run.last.write_bytes(content)
        with pytest.raises(ValueError, match="^disk full; .*last.pt") as error, resumable(run):
            raise OSError("disk full")
    assert "intact" not in str(error.value) and "goes on" not in str(error.value)


@pytest.mark.parametrize("name", ["metrics.jsonl", "lock", "config.yaml", "checkpoints/last.pt"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_in_the_place_of_a_kept_one_is_named(name, kind, tmp_path):
    with RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n") as run:
        run.last.write_bytes(b"")
    path = tmp_path / "run" / name
    path.unlink(missing_ok=True)
    {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": os.mkdir}[kind](path)
    with pytest.raises(ValueError, match=rf"(^|there is no ){path}"):
        RunDirectory.open(tmp_path / "run")
