"""Keys that earlier versions had: a command or a file that still gives one of them is told what became of it."""

from __future__ import annotations

DATE = "2026-11-26"
REMOVED = {
    "train.late": "all epochs sample, keep and validate alike",
    "train.importance": "all decisions are drawn alike",
    "train.early_steps": "all decisions are drawn alike",
    "train.reorder_until": "experts are always imitated in the problem's order",
    "train.sample_ahead": "each epoch samples before it trains; it was never faster to the same quality",
    "train.skip_bad_steps": "a step whose loss or gradient is not finite ends the run",
    "model.savings": "the network sees no routes of the savings heuristic",
}


def refuse_removed(key: str) -> None:
    """Raises ValueError if the key, or the one it is a part of, was removed."""
    for removed, instead in REMOVED.items():
        if f"{key}.".startswith(f"{removed}."):
            raise ValueError(f"{removed} was removed on {DATE}: {instead}")
