"""Keys that earlier versions had: a command or a file that still gives one of them is told what became of it."""

from __future__ import annotations

from typing import Any

DATE = "2026-11-26"
REMOVED = {
    "train.late": "all epochs sample, keep and validate alike",
    "train.importance": "all decisions are drawn alike",
    "train.early_steps": "all decisions are drawn alike",
    "train.reorder_until": "experts are always imitated in the problem's order",
    "train.sample_ahead": "each epoch samples before it trains; it was never faster to the same quality",
    "train.skip_bad_steps": "a step whose loss or gradient is not finite ends the run",
    "model.savings": "the network sees no routes of the savings heuristic",
    "problem.validation_size": "problem.validation_sizes is a list of sizes",
}


CLASSES = {"models.bq.BQ": "models.bq_tsp.BQ"}  # `_target_` of earlier versions, and where the class is now


def refuse_removed(key: str) -> None:
    """Raises ValueError if the key, or the one it is a part of, was removed."""
    for removed, instead in REMOVED.items():
        if f"{key}.".startswith(f"{removed}."):
            raise ValueError(f"{removed} was removed on {DATE}: {instead}")


def of_this_version(saved: dict[str, Any]) -> dict[str, Any]:
    """The configuration in a checkpoint with the keys of this version.

    Raises ValueError for a policy whose network has left the project.
    """
    config = saved["config"]
    problem, model = dict(config["problem"]), dict(config["model"])
    if (target := model.get("_target_")) in CLASSES:
        model["_target_"] = CLASSES[target]
    if saved["format"] > 3:  # a class of the user's may well have keys of these names
        return {**config, "model": model}
    if model.pop("savings", None):
        rule = "its network sees routes of the savings heuristic, which left the project"
        raise ValueError(f"{rule} on {DATE}: the policy's quality was mostly the heuristic's doing; train it anew")
    if "validation_size" in problem:
        problem["validation_sizes"] = [problem.pop("validation_size")]
    return {**config, "problem": problem, "model": model}
