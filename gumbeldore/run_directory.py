"""The files of one training run: config.yaml, checkpoints/, dataset/, metrics.jsonl, tensorboard/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gumbeldore.files import replacing


class RunDirectory:
    """Paths and files of a run; nothing of another run is ever overwritten."""

    def __init__(self, path: Path):
        self.path = path
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.jsonl"
        self.dataset = path / "dataset"
        self.tensorboard = path / "tensorboard"
        self.last = path / "checkpoints" / "last.pt"
        self.best = path / "checkpoints" / "best.pt"

    @classmethod
    def create(cls, path: Path, unique: bool, config: str) -> RunDirectory:
        """A new run directory; with `unique`, a number is appended to a path that is taken.

        Raises ValueError if the path is taken and must not be changed.
        """
        candidate, number = path, 1
        while True:
            try:
                candidate.mkdir(parents=True, exist_ok=False)
                break
            except FileExistsError:
                if candidate.is_dir() and not any(candidate.iterdir()):
                    break
                if not unique:
                    raise ValueError(
                        f"run_dir={path} is not empty; choose another, or continue it with resume={path}"
                    ) from None
                number += 1
                candidate = path.with_name(f"{path.name}-{number}")
        run = cls(candidate)
        run.last.parent.mkdir()
        run.config.write_text(config)
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The directory of an earlier run. Raises ValueError if there is none to continue."""
        run = cls(path)
        for file in (run.config, run.last):
            if not file.is_file():
                raise ValueError(f"resume={path}: there is no {file}")
        return run

    def append_metrics(self, values: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with open(self.metrics, "a") as file:
            file.write(json.dumps(values) + "\n")

    def forget_metrics_after(self, epoch: int) -> None:
        """Drop the lines of epochs that no checkpoint has kept."""
        if self.metrics.exists():
            lines = [line for line in self.metrics.read_text().splitlines() if _epoch(line) <= epoch]
            with replacing(self.metrics) as file:
                file.write("".join(line + "\n" for line in lines).encode())


def _epoch(line: str) -> float:
    try:
        return json.loads(line)["epoch"]
    except (json.JSONDecodeError, KeyError):
        return float("inf")  # torn by a kill
