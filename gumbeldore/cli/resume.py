"""Resuming, of trainings and of evaluations: what may change, what is checked, and what is found again."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.schema import COMMANDS, TRAIN, EvaluationSettings
from gumbeldore.evaluation.kept import MANIFEST, MAY_CHANGE, fingerprint
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import named_class
from gumbeldore.runtime.checked import check
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.sampler.methods import Method
from gumbeldore.training.state import TrainState

# Keys of a training that change no result when it goes on (the number of workers, where they have several GPUs, may
# change the last bits of matrix products), and those that may change results.
SAME_RESULT = ("resume", "time_limit", "workers", "images_every", "checkpoint_every", "ray.address")
OTHER_RESULT = (
    "search_batch_rows",
    "device",
    "precision",
    "train_threads",
    "worker_threads",
    "train.epochs",
    "train.cooldown_epochs",
)
MOST_BYTES, MOST_DEEP = 2**20, 20  # of a configuration in YAML; those of runs have thousands, and 5
REDECIDED_ON_DEVICE = ("search_batch_rows", "train_threads")  # on another device these are decided anew


def continued(config: Configuration) -> Configuration:
    """The configuration of the run to continue; ValueError if more is asked of it than it can change."""
    resume, changeable = config.cfg.resume, (*SAME_RESULT, *OTHER_RESULT)
    check("resume", resume, str)
    if fixed := [word for word in config.words if word.split("=")[0] not in changeable]:
        raise ValueError(f"a continued run can change {', '.join(changeable)} only, not {fixed[0]}")
    with RunDirectory.open(Path(resume)) as directory:  # checks that nobody else has it
        saved = read_config(directory.config)
    ours = [*COMMANDS["train"], "problem", "model", "methods", *(f"train.{key}" for key in TRAIN)]
    theirs = [*saved, *(f"train.{key}" for key in saved.train)]
    for few, many, what in ((theirs, ours, "lacks"), (ours, theirs, "has")):
        if unknown := [key for key in many if key not in few]:
            where = f"another version made this run, {directory.config} {what} {unknown[0]}"
            raise ValueError(f"resume={resume}: {where}; a new run can begin with its weights (init=)")
    if saved.ray.get("address") is not None and "ray.address" not in config.typed:  # its answers are executed here
        again = f"name it again if it is yours: ray.address={saved.ray.address}, or ray.address=null"
        raise ValueError(f"resume={resume}: the run was on a Ray cluster; {again}")
    for key in config.typed:
        OmegaConf.update(saved, key, OmegaConf.select(config.cfg, key))
    for key in REDECIDED_ON_DEVICE if "device" in config.typed else ():
        if key not in config.typed:
            saved[key] = "auto"
    return Configuration(saved, composed=False)


def read_config(path: Path) -> DictConfig:
    """The configuration of an earlier run, which may be somebody else's: nothing that it names is called.

    Raises ValueError if somebody has changed the file so that no run has written it: it refers to something (an anchor,
    `${...}`), nests deep, or names other things than classes of a problem, a policy and search methods.
    """
    try:
        with checkpoint.checkpoint_errors(path, "is not the configuration of a run"):
            _check_plain(path)
            config = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ValueError(f"{path} is not the configuration of a run: {str(error).splitlines()[0]}") from None
    for group in ("train", "search", "ray", "problem", "model", "methods"):
        if not isinstance(config, DictConfig) or not OmegaConf.is_dict(config.get(group)):
            raise ValueError(f"{path} is not the configuration of a run: it has no keys of {group}")
    assert isinstance(config, DictConfig)
    try:
        named_class(config.problem, "problem", Problem)
        named_class(config.model, "model", Policy)
        for name, method in config.methods.items():
            named_class(method if OmegaConf.is_dict(method) else {}, f"methods.{name}", Method)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return config


def _check_plain(path: Path) -> None:
    """Raises ValueError for what would take much time or memory to read, or would be evaluated."""
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    depth = 0
    for event in yaml.parse(path.read_bytes(), yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEEP:
            raise ValueError(f"it nests more than {MOST_DEEP} deep")
        if isinstance(event, yaml.AliasEvent) or isinstance(event, yaml.ScalarEvent) and "${" in event.value:
            raise ValueError("it refers to something, where a run writes plain values")


def restore(state: TrainState, directory: RunDirectory, instance_type: type, epochs: int) -> None:
    """Put the state of the last checkpoint into a new one. Raises ValueError if more epochs are done than asked for."""
    saved = checkpoint.load(directory.last)
    with checkpoint.checkpoint_errors(directory.last):
        state.load_state_dict(saved["train_state"], saved["weights"], instance_type)
    if epochs < state.epoch:
        raise ValueError(f"train.epochs={epochs} is less than the {state.epoch} epochs done")
    directory.forget_metrics_after(state.epoch)


@contextmanager
def resumable(directory: RunDirectory) -> Iterator[None]:
    """Add to each error that ends the training how the training can be continued.

    A ValueError comes again unless the machine was at fault: whatever is random is drawn from the seed.
    """
    again, anew = (shlex.quote(f"{key}={directory.path}") for key in ("resume", "init"))
    try:
        yield
    except ValueError as error:
        rule = f"{again} tries it again, {anew} starts a run with other settings from its best policy"
        raise ValueError(f"{error}; {rule}") from error
    except (OSError, WorkerError) as error:
        kind = WorkerError if isinstance(error, WorkerError) else ValueError
        try:
            checkpoint.load(directory.last)
        except (ValueError, OSError) as damage:
            raise kind(f"{error}; {damage}") from error
        raise kind(f"{error}; {directory.last} is intact, {again} goes on from it") from error


def results_folder(settings: EvaluationSettings) -> Path:
    """The folder of an evaluation's results, not made yet.

    Raises ValueError if there is anything in it but results to go on with: nothing of the user's is overwritten.
    """
    out_dir, resume = settings.out_dir, settings.resume
    if resume and out_dir is None:
        raise ValueError("resume=true needs out_dir=, the folder of the evaluation to go on with")
    path = Path(out_dir or Path("evaluations", datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")))
    if path.exists() and not path.is_dir():
        raise ValueError(f"out_dir={path} is not a folder; choose another")
    kept = (path / MANIFEST).exists()
    if kept and not resume:
        raise ValueError(f"out_dir={path} holds results already; choose another, or go on with them by resume=true")
    begun = {path / MANIFEST.parent, path / MANIFEST.parent / "lock"}  # by another process, which has written no more
    if not kept and any(found not in begun for found in path.rglob("*")):  # the first of them will do
        raise ValueError(f"out_dir={path} is not empty, and holds no results to go on with; choose another")
    return path


def manifest(
    config: Configuration, machine: dict[str, Any], checkpoints: list[Path], instance_sets: list[InstanceSet]
) -> dict[str, Any]:
    """All that the solutions of an evaluation depend on: it must be the same when the evaluation goes on.

    Arguments:
        machine: what the machine has decided, by key
    """
    values = {key: value for key, value in config.flat().items() if key not in MAY_CHANGE}
    values["random keys"] = "by content"  # of the instances; an evaluation by their places does not go on
    values |= {**machine, "instances (sha256)": fingerprint(instance_sets)}
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in checkpoints]
    return {**values, "checkpoint (sha256)": " ".join(digests)}


def interruption(done: int, count: int | str, out_dir: Path) -> KeyboardInterrupt:
    """What an interrupted evaluation says at its end: how many searches of an instance are kept, and how it goes on.

    Arguments:
        count: how many there are, as a number or in words
    """
    words = shlex.join([f"out_dir={out_dir}", "resume=true"])
    kept = f"{done} of {count} searches are finished and kept"
    return KeyboardInterrupt(f"interrupted: {kept}; the same command with {words} goes on")
