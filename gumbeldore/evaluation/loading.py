"""A trained policy, with the problem it was trained for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import build
from gumbeldore.runtime.old_versions import of_this_version, weights_of_this_version


class LoadedPolicy(NamedTuple):
    problem: Problem
    policy: Policy
    config: dict[str, Any]  # of the training
    path: Path  # of the checkpoint


def load_policy(path: str | Path, nearest: int | None = None) -> LoadedPolicy:
    """The policy in a checkpoint, or the best one of a run directory.

    Arguments:
        nearest: of the CVRP, see configs/evaluate.yaml

    Raises ValueError for a checkpoint that cannot be read, and if its problem has no such setting as `nearest`.
    """
    path = checkpoint.find(Path(path))
    saved = checkpoint.load(path)
    required = ("reset", "step", "mask", "cost", "load")
    with checkpoint.checkpoint_errors(path):
        config = of_this_version(saved)
        problem = build(config["problem"], "problem", *required)
        policy = build(config["model"], "model", "encode", "forward", "with_auxiliary_loss").eval()
        policy.load_state_dict(weights_of_this_version(saved, policy.state_dict()))
    if nearest is not None:
        if not hasattr(problem, "nearest"):
            raise ValueError(f"nearest has no effect on {problem.name}")
        problem = build({**config["problem"], "nearest": nearest}, "problem", *required)
    return LoadedPolicy(problem, policy, config, path)


def start_from(policy: Policy, problem: Problem, path: str | Path) -> None:
    """Give a network that is to be trained the weights of a checkpoint, or of the best policy of a run directory.

    Raises ValueError for a policy of another problem, and naming the layer if the networks differ.
    """
    given, path = path, checkpoint.find(Path(path).expanduser())
    if not path.is_file():
        raise ValueError(f"init={given}: there is no checkpoint {path}")
    saved = checkpoint.load(path)
    with checkpoint.checkpoint_errors(path, "cannot be where training starts"):
        of_this_version(saved)
        if saved["problem"] != problem.name:
            raise ValueError(f"it is a policy for {saved['problem']}, not for {problem.name}")
        ours = policy.state_dict()
        theirs = weights_of_this_version(saved, ours)
        for name in [*theirs, *ours]:
            if name not in theirs or name not in ours or theirs[name].shape != ours[name].shape:
                has, wanted = (str(list(x[name].shape)) if name in x else "not there" for x in (theirs, ours))
                raise ValueError(f"the networks differ: its layer {name} is {has}, here it is {wanted}")
        policy.load_state_dict(theirs)
