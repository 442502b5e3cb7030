"""What trainings leave behind, and whether two of them are the same."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from gumbeldore.runtime import checkpoint


def metrics_of(run):
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def same_runs(one, other, epochs):
    a, b = (checkpoint.load(run / "checkpoints" / "last.pt") for run in (one, other))
    assert a["epoch"] == b["epoch"] == epochs and a["best_cost"] == b["best_cost"]
    for x, y in ((a["weights"], b["weights"]), (a["train_state"]["policy"], b["train_state"]["policy"])):
        assert all(torch.equal(x[name], y[name]) for name in x)
    for x, y in zip(metrics_of(one), metrics_of(other), strict=True):
        assert x["training/loss"] == y["training/loss"] and x["epoch"] == y["epoch"]


def tensors_of(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [tensor for part in parts for tensor in tensors_of(part)]


def without_times(run: Path) -> list[dict[str, float]]:
    return [{key: value for key, value in line.items() if "second" not in key} for line in metrics_of(run)]


def check_same(one: Path, other: Path) -> None:
    assert without_times(one) == without_times(other)
    for file in ("last.pt", "best.pt"):
        a, b = (checkpoint.load(folder / "checkpoints" / file) for folder in (one, other))
        assert a["best_cost"] == b["best_cost"]
        assert file == "best.pt" or a["epoch"] == b["epoch"] == 4  # a resumed run writes its best one again
        ours, theirs = tensors_of(a), tensors_of(b)
        assert len(ours) == len(theirs) > 10 and all(torch.equal(x, y) for x, y in zip(ours, theirs, strict=True))
    assert not list(other.rglob("*.gumbeldore-tmp"))
    shards = [sorted(path.name for path in (folder / "dataset").iterdir()) for folder in (one, other)]
    assert shards[0] == shards[1]


def first_cards(tags: list[str]) -> set[str]:
    """The scalars of the first group on TensorBoard's page."""
    return {tag.removeprefix("progress/") for tag in tags if tag.startswith("progress/")}
