"""Names of earlier versions: keys that were renamed or removed, classes that have moved, parameters of networks.

A command or a file that still gives such a key is told what became of it; an old policy loads by the new names.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import Tensor

REMOVED_ON = "2026-11-26"
REMOVED = {
    "train.late": "all epochs sample, keep and validate alike",
    "train.importance": "all decisions are drawn alike",
    "train.early_steps": "all decisions are drawn alike",
    "train.reorder_until": "experts are always imitated in the problem's order",
    "train.sample_ahead": "each epoch samples before it trains; it was never faster to the same quality",
    "train.skip_bad_steps": "a step whose loss or gradient is not finite ends the run",
    "model.savings": "the network sees no routes of the savings heuristic",
    "problem.validation_size": "problem.validation_sizes is a list of sizes",
    "train.final_learning_rate": "train.learning_rate_end_factor is the share of the rates that is left at the end",
    **dict.fromkeys(("train.averaging", "train.ema_decay"), "the weights of the last step are validated and sample"),
    **dict.fromkeys(("train.greedy_too", "train.include_greedy"), "experts are sampled solutions alone"),
    **dict.fromkeys(
        ("train.dataset_capacity", "train.dataset_epochs", "train.clear_on_improvement", "train.forget"),
        "experts are forgotten when the best policy has improved; keeping those of some epochs was worse",
    ),
}
RENAMED = {
    "train.matrix_learning_rate": "train.muon_learning_rate",
    "train.matrix_weight_decay": "train.muon_weight_decay",
    "trainers": "train_processes",
    "trainer_threads": "train_threads",
    "chunk_rows": "search_batch_rows",
    "model.own_frame": "model.canonical_coordinates",
    "nearest": "problem.nearest",
}
GROUPS = {"search": "method"}  # groups of options, of which `search=greedy` chose one
OPTIONS = {"method=rules": "method=heuristic", "method=savings": "method=heuristic"}  # and what took their place
CLASSES = {"models.bq.BQ": "models.bq_tsp.BQ"}  # `_target_` of earlier versions, and where the class is now
OURS = ("models.", "problems.")  # a class of the user's may well have keys of these names
PARAMETERS = {  # modules of networks in earlier checkpoints, and their paths now
    "out": "output_projection",  # of models.layers.ReZeroLayer
    "widen": "up_projection",
    "narrow": "down_projection",
    "leave": "successor_loss.query",  # of models.bq_tsp.BQ
    "enter": "successor_loss.key",
    "pointers.0": "route_loss.halfway",  # of models.bq_cvrp.BQ
    "pointers.1": "route_loss.final",
    "earlier": "order_loss.earlier",  # of models.job_shop.JobShop
    "later": "order_loss.later",
}


def refuse_old(key: str) -> None:
    """Raises ValueError if the key, or the one it is a part of, was removed or renamed."""
    for old, new in RENAMED.items():
        if f"{key}.".startswith(f"{old}."):
            raise ValueError(f"{old} is called {new} now")
    for old, instead in REMOVED.items():
        if f"{key}.".startswith(f"{old}."):
            raise ValueError(f"{old} was removed on {REMOVED_ON}: {instead}")


def refuse_old_option(group: str, word: str) -> None:
    """Raises ValueError if `word` chooses of a group that was renamed, as `search=greedy` does."""
    if new := GROUPS.get(group):
        now = f"{new}{word.removeprefix(group)}"
        raise ValueError(f"{word} is called {OPTIONS.get(now, now)} now")


def of_this_version(saved: dict[str, Any]) -> dict[str, Any]:
    """The configuration in a checkpoint with the classes and keys of `problem` and `model` of this version.

    Raises ValueError for a policy whose network has left the project.
    """
    config = saved["config"]
    problem, model = dict(config["problem"]), dict(config["model"])
    if saved["format"] == 3:  # later ones have no such keys, but a class of the user's may
        if model.pop("savings", None):
            rule = f"its network sees routes of the savings heuristic, which left the project on {REMOVED_ON}"
            raise ValueError(f"{rule}: the policy's quality was mostly the heuristic's doing; train it anew")
        if "validation_size" in problem:
            problem["validation_sizes"] = [problem.pop("validation_size")]
    return {**config, "problem": _renamed("problem", problem), "model": _renamed("model", model)}


def _renamed(group: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a class of this project by the new names of its keys, without removed ones."""
    target = values.get("_target_")
    if not str(target).startswith(OURS):
        return values
    values = {key: value for key, value in values.items() if f"{group}.{key}" not in REMOVED}
    keys = {key: RENAMED.get(f"{group}.{key}", f"{group}.{key}").partition(".")[2] for key in values}
    return {keys[key]: CLASSES.get(value, value) if key == "_target_" else value for key, value in values.items()}


def weights_of_this_version(saved: dict[str, Any], names: Collection[str]) -> dict[str, Tensor]:
    """The weights in a checkpoint by the parameter names of this version.

    Arguments:
        names: of the network's parameters; what the network has under its saved name stays (a network of the user's
            may have modules of these names)
    """
    weights = saved["weights"]
    return {name if name in names else _renamed_parameter(name): weight for name, weight in weights.items()}


def _renamed_parameter(name: str) -> str:
    path = f".{name}"
    for old, new in PARAMETERS.items():
        path = path.replace(f".{old}.", f".{new}.")
    return path[1:]
