"""Import a checkpoint of the authors' code [GD]: nothing in it is executed; the result is one of our checkpoints.

`python -m gumbeldore.cli.import_checkpoint checkpoint.pt problem=tsp model=bq heads=8 out=my.pt`
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy
import torch
from numpy._core.multiarray import scalar
from torch import Tensor

from gumbeldore.cli.command import robust_output
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.published import NETWORKS, PublishedNetwork, model_config, network_of, our_weights
from gumbeldore.cli.words import key_values
from gumbeldore.evaluation.loading import check_fit
from gumbeldore.interfaces import Policy
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import build, check_keys
from gumbeldore.runtime.files import in_home
from gumbeldore.runtime.program import VERSION

WORDS = ("problem", "model", "heads", "out")


def float64(name: str, align: bool = False, copy: bool = False) -> numpy.dtype:
    """What a pickle calls as `numpy.dtype`. Another type than float64 might take any amount of memory."""
    if name != "f8":
        raise ValueError(f"it holds a number of NumPy's type {name!s:.20}")
    return numpy.dtype("f8", copy=True)


# Their training stores the validation gap as a numpy.float64; NumPy 1 and NumPy 2 name its constructor differently.
SCALAR = [
    *((scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    *((float64, "numpy.dtype"), numpy.dtypes.Float64DType),
]


def imported_checkpoint(path: Path, problem: str, model: str, heads: int) -> dict[str, Any]:
    """The content of our checkpoint from one of theirs.

    Arguments:
        problem, model: what the file must hold, by the names of train.py
        heads: of the attention, which the file does not tell

    Raises ValueError for a file that cannot be read safely, that holds another network, or no network of theirs.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with checkpoint.checkpoint_errors(path, "is not a checkpoint of grimmlab/gumbeldore"):
        body = path.read_bytes()
        saved = checkpoint.unpickled(body, SCALAR)
        weights = checked_weights(saved)
        network = network_of(weights)
    if (network.problem, network.model) != (problem, model):
        right = f"problem={network.problem} model={network.model}"
        raise ValueError(f"{path} holds {network.about} ({right}), not problem={problem} model={model}")
    with checkpoint.checkpoint_errors(path, "cannot be imported"):
        config = {**trained_by(network), "model": model_config(network, weights, heads)}
        config["imported"] = {"file": path.name, "sha256": hashlib.sha256(body).hexdigest()}
        ours = our_weights(network, weights, config["model"]["layers"])
        with torch.device("meta"):  # shapes alone, of whatever size the file claims
            shapes = build(config["model"], "model", Policy).state_dict()
        check_fit(ours, shapes)
    epochs = saved.get("epochs_trained")
    return {
        "config": config,
        "problem": network.problem,
        "epoch": epochs if type(epochs) is int and epochs >= 0 else 0,
        "weights": ours,
    }


def checked_weights(saved: Any) -> dict[str, Tensor]:
    """The weights that the authors' code evaluates, in float32. Raises ValueError unless they are finite tensors."""
    weights = saved.get("model_weights") if isinstance(saved, dict) else None
    if not isinstance(weights, dict) or not weights:
        raise ValueError("it has no model_weights")
    named = all(isinstance(name, str) for name in weights)
    if not named or not all(isinstance(weight, Tensor) and weight.is_floating_point() for weight in weights.values()):
        raise ValueError("its model_weights are not named tensors of numbers")
    checkpoint.check_tensors({"model_weights": weights})  # before numbers are copied that the file does not hold
    weights = {name: weight.float() for name, weight in weights.items()}
    checkpoint.check_tensors({"model_weights": weights})  # in float32 a large number is infinite
    return weights


def trained_by(network: PublishedNetwork) -> dict[str, Any]:
    """The `problem` and `search` of a configuration: those of the authors' training."""
    config = Configuration.of_training(f"experiment={network.experiment}", "recipe=paper")
    return {"problem": {**config.plain("problem"), **network.trained_with}, "search": config.plain("search")}


def main(words: list[str] | None = None) -> None:
    robust_output()
    parser = argparse.ArgumentParser(prog="python -m gumbeldore.cli.import_checkpoint", description=__doc__)
    parser.add_argument("--version", action="version", version=f"gumbeldore {VERSION}")
    parser.add_argument("file", type=Path, help="the checkpoint of grimmlab/gumbeldore")
    parser.add_argument("words", nargs="*", metavar="key=value", help=f"all of {', '.join(WORDS)}")
    typed = parser.parse_args(words)
    try:
        print(convert(in_home(typed.file), key_values(typed.words)))
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def convert(file: Path, given: dict[str, str]) -> str:
    """Write the checkpoint; returns what to tell the user. Raises ValueError for wrong words or a wrong file."""
    check_keys(given, WORDS, "import_checkpoint")
    if missing := [word for word in WORDS if not given.get(word)]:
        about = "; a file does not tell its heads: the published ones have 8 (tsp, jssp) and 12 (cvrp)"
        raise ValueError(f"{missing[0]}= is missing{about if missing[0] == 'heads' else ''}")
    if not given["heads"].isdecimal():
        raise ValueError(f"heads must be a whole number above 0, got {given['heads']!r}")
    known = [(network.problem, network.model) for network in NETWORKS.values()]
    if (given["problem"], given["model"]) not in known:
        choices = ", ".join(f"problem={problem} model={model}" for problem, model in known)
        raise ValueError(f"problem={given['problem']} model={given['model']} cannot be imported; there are {choices}")
    out = in_home(given["out"])
    if out.exists():
        raise ValueError(f"out={out} is there already; choose another")
    content = imported_checkpoint(file, given["problem"], given["model"], int(given["heads"]))
    checkpoint.save(out, content)
    sizes = ", ".join(f"{key} {value}" for key, value in content["config"]["model"].items() if type(value) is int)
    count = sum(weight.numel() for weight in content["weights"].values())
    return f"wrote {out}: {given['problem']}, {sizes}, {count:,} parameters, {content['epoch']} epochs trained"


if __name__ == "__main__":
    main()
