"""The files of one training run: config.yaml, checkpoints/, dataset/, metrics.jsonl, TensorBoard's events."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

from gumbeldore.runtime.arrays import regular
from gumbeldore.runtime.files import atomic_write, remove_leftovers, write_errors, write_text
from gumbeldore.runtime.folder_lock import lock

MOST_SNAPSHOTS = 20


class RunDirectory:
    """Paths and files of a run; nothing of another run is ever overwritten.

    Only one process can have it at a time, until the `with` block of the directory ends or the process does.
    """

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.jsonl"
        self.dataset = path / "dataset"
        self.last = path / "checkpoints" / "last.pt"
        self.best = path / "checkpoints" / "best.pt"
        self._locked = lock(path, "run_dir")

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *_) -> None:
        self._locked.close()

    @classmethod
    def create(cls, path: Path, unique: bool, config: str) -> RunDirectory:
        """A new run directory; with `unique`, a number is appended to a path that is taken.

        Raises ValueError if the path is taken and must not be changed.
        """
        candidate, number = path, 1
        while True:
            try:
                candidate.mkdir(parents=True)
                break
            except FileExistsError:
                if not unique:
                    if not candidate.is_dir():
                        raise ValueError(f"run_dir={path} is not a folder; choose another") from None
                    if any(candidate.iterdir()):
                        again = shlex.quote(f"resume={path}")
                        rule = f"run_dir={path} is not empty; choose another, or continue it with {again}"
                        raise ValueError(rule) from None
                    break
            number += 1
            candidate = path.with_name(f"{path.name}-{number}")
        run = cls(candidate)
        run.last.parent.mkdir()
        run.write_config(config)
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The directory of an earlier run. Raises ValueError if there is none to continue."""
        for file in (path / "config.yaml", path / "checkpoints" / "last.pt"):
            if not file.is_file():
                raise ValueError(f"resume={path}: there is no {file}")
        run = cls(path)
        regular(run.metrics)
        for folder in (path, run.last.parent, run.dataset):
            remove_leftovers(folder)
        return run

    def write_config(self, config: str) -> None:
        """The configuration as YAML."""
        write_text(self.config, config)

    def snapshot(self, epoch: int) -> Path:
        """Where the best policy after so many epochs is kept, see `thin_out_snapshots`."""
        return self.last.with_name(f"epoch_{epoch:06d}.pt")

    def thin_out_snapshots(self) -> None:
        """Of more than MOST_SNAPSHOTS, keep multiples of 2, 4, ... times the step between them, and the newest.

        The step is that of the files, not of the configuration: a continued run may have changed its own.
        """
        paths = {int(path.stem[-6:]): path for path in self.last.parent.glob(f"epoch_{'[0-9]' * 6}.pt")}
        kept, every = set(paths), math.gcd(*paths)
        while len(kept) > MOST_SNAPSHOTS:
            every *= 2
            kept = {epoch for epoch in paths if epoch % every == 0 or epoch == max(paths)}
        for epoch in set(paths) - kept:
            paths[epoch].unlink()

    def append_metrics(self, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with write_errors(self.metrics), open(self.metrics, "a") as file:
            file.write(json.dumps(values) + "\n")

    def forget_metrics_after(self, epoch: int) -> None:
        """Drop the lines of epochs that no checkpoint has kept, and a line torn by a kill; lines of others stay."""
        if self.metrics.exists():
            with open(self.metrics, "rb") as lines, atomic_write(self.metrics) as file:
                kept = (line for line in lines if not _is_of_later_epoch(line, epoch))
                file.writelines(line.removesuffix(b"\n") + b"\n" for line in kept)


def _is_of_later_epoch(line: bytes, epoch: int) -> bool:
    try:
        return json.loads(line)["epoch"] > epoch
    except (ValueError, TypeError, KeyError, RecursionError):
        return line.startswith(b"{") and not line.endswith(b"\n")
