"""A trained policy, with the problem it was trained for."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gumbeldore.instance_set import WrongProblemError
from gumbeldore.interfaces import HasIndependentDecisions, HasLocalSearch, Policy, Problem
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import build, imported, node_of, takes
from gumbeldore.runtime.checked import Limits, check
from gumbeldore.runtime.files import in_home

# A network may make more numbers than are saved: it may replace parameters, share one among layers, or have masks.
MOST_PARAMETERS, ROOM = 10, 2**28
FACTORIES = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn}


class LoadedPolicy(NamedTuple):
    problem: Problem
    policy: Policy
    config: dict[str, Any]  # of the training
    path: Path  # of the checkpoint


def load_policy(path: str | Path, /, **problem_values: Any) -> LoadedPolicy:
    """The policy in a checkpoint, the best one of a run directory, or a policy that is shipped, by its name.

    Arguments:
        problem_values: of the problem, instead of those of the training; None leaves a value as it was. Of large
            instances, a policy that was trained with all in view sees a part, unless a value says more (`window="all"`)

    Raises ValueError for what is no path, a checkpoint that cannot be read, and a value that its problem does not have.
    """
    if not isinstance(path, (str, os.PathLike)):
        rule = "a policy must be what load_policy returns, a path, or the name of one that is shipped"
        raise ValueError(f"{rule}, got {type(path).__name__}")
    path = checkpoint.find(in_home(path))
    saved = checkpoint.load(path)
    with checkpoint.checkpoint_errors(path):
        config = saved["config"]
        problem = build(config["problem"], "problem", Problem)
        policy = _network(config["model"], saved["weights"]).eval()
        policy.load_state_dict(saved["weights"])
    return with_values(LoadedPolicy(problem, policy, config, path), problem_values)


def save_policy(
    path: str | Path, problem: Problem, policy: Policy, *, step_size: float | None = None, overwrite: bool = False
) -> None:
    """Write a policy and its problem to a file that `load_policy`, `checkpoint=` and `init=` take.

    The file holds the weights, and by what arguments both objects were made: later changes of attributes are lost.

    Arguments:
        step_size: sigma of the training, which searches of evaluations take; None: they must be given one
        overwrite: replace a file that is there

    Raises ValueError for what could not be loaded again, such as an argument that is a tensor, or a class of a
    notebook, and for a step size that no search takes; FileExistsError for a file that is there, unless `overwrite`
    is True.
    """
    if not (isinstance(path, (str, os.PathLike)) and isinstance(problem, Problem) and isinstance(policy, Policy)):
        given = f"{type(path).__name__}, {type(problem).__name__} and {type(policy).__name__}"
        raise ValueError(f"save_policy takes a path, a Problem and a Policy, in this order; got {given}")
    path = in_home(path)
    if path.is_symlink() or path.exists() and not path.is_file():
        raise ValueError(f"{path} is a link, a device or a folder, which save_policy does not replace")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} is there already; overwrite=True replaces it")
    check("step_size", step_size, float | None, Limits(0))
    with checkpoint.checkpoint_errors(path, "cannot be written"):
        if policy.problem not in (None, problem.name):
            raise ValueError(f"the policy is for {policy.problem}, not for {problem.name}")
        config = {"problem": node_of(problem, "problem"), "model": node_of(policy, "model")}
        config["search"] = {"step_size": None if step_size is None else float(step_size)}
        weights = {name: weight.cpu() for name, weight in policy.state_dict().items()}
        content = {"config": config, "problem": problem.name, "weights": weights}
        build(config["problem"], "problem", Problem)
        _network(config["model"], weights).load_state_dict(weights)
        checkpoint.check(content)
    checkpoint.save(path, content)


def _network(model: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Policy:
    """The network of a configuration, for these weights; torch's random numbers and default number format stay.

    Its numbers are in float32 if the weights are, whatever torch's default is.

    Raises ValueError as `build` does, and for sizes that do not fit the weights.
    """
    numbers = sum(weight.numel() for weight in weights.values())
    in_float32 = not any(weight.dtype == torch.float64 for weight in weights.values())
    default = torch.get_default_dtype()
    limit = _Limit(ROOM + MOST_PARAMETERS * numbers)
    try:
        if in_float32:
            torch.set_default_dtype(torch.float32)
        with torch.random.fork_rng(devices=[]), limit:
            return build(model, "model", Policy)
    except ValueError:
        if limit.left < 0:
            raise ValueError(f"its {numbers} weights are far too few for a network of {dict(model)}") from None
        raise
    finally:
        if in_float32:  # else a module of the user's may have set it for good
            torch.set_default_dtype(default)


class _Limit(TorchFunctionMode):
    """While it is entered, torch makes so many numbers; for more, a ValueError comes before the memory is taken."""

    def __init__(self, numbers: int):
        super().__init__()
        self.left = numbers

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in FACTORIES:
            size = args[0] if args and isinstance(args[0], (list, tuple)) else args
            self.left -= 10_000 + math.prod(size)  # the objects around a tensor take memory, too
            if self.left < 0:
                raise ValueError("too large")
        return function(*args, **(kwargs or {}))


def with_values(loaded: LoadedPolicy, problem_values: Mapping[str, Any]) -> LoadedPolicy:
    """The policy with other values of its problem, see `load_policy`."""
    given = {name: value for name, value in problem_values.items() if value is not None}
    if unknown := [name for name in given if not takes(type(loaded.problem), name)]:
        raise ValueError(f"problem.{unknown[0]}: {loaded.problem.name} has no {unknown[0]}")
    problem = build({**loaded.config["problem"], **given}, "problem", Problem) if given else loaded.problem
    return loaded._replace(problem=problem.for_evaluation())


def decisions_per_pass(problem: Problem) -> int:
    """How many decisions of a forward pass greedy decoding makes in evaluations, unless a number is given."""
    return problem.decisions_per_pass if isinstance(problem, HasIndependentDecisions) else 1


def prefers_local_search(problem: Problem) -> bool:
    """Whether evaluations with a time limit use the local search of a problem, unless a method is named."""
    return isinstance(problem, HasLocalSearch) and problem.prefers_local_search


@contextlib.contextmanager
def meant_for(loaded: LoadedPolicy) -> Iterator[None]:
    """Where instances are read for a policy: if they are of another problem, the error says whose the policy is."""
    try:
        yield
    except WrongProblemError as error:
        raise ValueError(f"{error} (the policy of {loaded.path} is for {loaded.problem.name})") from None


def start_from(policy: Policy, problem: Problem, path: str | Path, model: Mapping[str, Any]) -> None:
    """Give a network that is to be trained the weights of a checkpoint, or of the best policy of a run directory.

    Arguments:
        model: the configuration that the network was built from

    Raises ValueError for a policy of another problem, and naming the layer or the setting if the networks differ.
    """
    try:
        path = checkpoint.find(in_home(path))
    except ValueError as error:
        raise ValueError(f"init={path}: {error}") from None
    saved = checkpoint.load(path)
    with checkpoint.checkpoint_errors(path, "cannot be where training starts"):
        their_model = saved["config"]["model"]
        if saved["problem"] != problem.name:
            raise ValueError(f"it is a policy for {saved['problem']}, not for {problem.name}")
        check_fit(saved["weights"], policy.state_dict())
        check_same_function(their_model, model)
        policy.load_state_dict(saved["weights"])


def check_fit(theirs: Mapping[str, Tensor], ours: Mapping[str, Tensor]) -> None:
    """Raises ValueError for the first weight that one of two networks lacks, or has in another shape."""
    for name in [*theirs, *ours]:
        its, here = (list(x[name].shape) if name in x else "not there" for x in (theirs, ours))
        if its != here:
            raise ValueError(f"the networks differ: its layer {name} is {its}, here it is {here}")


def check_same_function(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises ValueError if two networks with layers of the same shapes compute different things of the same weights.

    The weights of auxiliary losses, whose keys end with `_loss`, may differ. A class may have moved to another module.
    """

    arguments = inspect.signature(imported(ours["_target_"], "model")).parameters
    defaults = {key: x.default for key, x in arguments.items() if x.default is not inspect.Parameter.empty}

    def comparable(model: Mapping[str, Any], key: str) -> Any:
        value = (defaults | dict(model))[key]  # the file of an older version may lack what has a default
        return str(value).rpartition(".")[2] if key == "_target_" else value

    for key in [*defaults, *(key for key in ours if key in theirs)]:
        its, here = comparable(theirs, key), comparable(ours, key)
        if not key.endswith("_loss") and its != here:
            raise ValueError(f"the networks differ: its model.{key} is {its}, here it is {here}")
