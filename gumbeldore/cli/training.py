"""A run of training: everything that Algorithm 1 needs, from the configuration to open files and processes."""

from __future__ import annotations

import copy
import math
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from gumbeldore.cli import command, parts
from gumbeldore.cli.evaluation import say_notices
from gumbeldore.cli.overrides import check_effect, typed_keys, typed_words
from gumbeldore.cli.resuming import continued
from gumbeldore.cli.run_recorder import RunRecorder, save
from gumbeldore.cli.settings import RunSettings
from gumbeldore.cli.setup import Setup, set_up
from gumbeldore.parallel.devices import cpu_threads
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.reporting.console import Terminal, hardware
from gumbeldore.reporting.tensorboard import LAYOUT, OF_GIVEN, OF_POOL, Dashboard
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.distributed import DDPLauncher, DDPTask
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.ranks import SINGLE_PROCESS, SingleProcess
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate


@contextmanager
def open_training(cfg: DictConfig) -> Iterator[tuple[dict[str, Any], RunRecorder]]:
    """The arguments of the training's algorithm and its recorder; the run's directory is locked until the end."""
    words = typed_words()
    parts.training_search(cfg)  # refused before the recipe resolves keys of a method that training lacks
    parts.apply_recipe(cfg, set(typed_keys(words)))
    if cfg.resume:
        cfg = continued(cfg)
    else:
        check_effect(cfg, words)
    setup = set_up(cfg)
    # A continued run decides nothing anew, unless it is asked to.
    cfg.precision, cfg.train_processes, cfg.train_threads = setup.precision, len(setup.train_processes), setup.threads
    cfg.search_batch_rows, cfg.device, cfg.resume = setup.search_batch_rows, str(setup.device), None
    if setup.settings.instances and Path(setup.settings.instances).exists():  # files are found from every folder
        cfg.train.instances = str(Path(setup.settings.instances).resolve())
    config = OmegaConf.to_yaml(cfg, resolve=True)
    with open_directory(setup.run, setup.problem.name, config) as directory:
        stopper = Stopper(setup.run.time_limit)
        state, first = initial_state(setup, directory)
        if setup.run.resume:
            directory.write_config(config)  # what was changed holds from now on
        values = parts.plain(cfg)
        # Also of a continued run: an epoch that was cut short may have left a better policy.
        save(directory.best, values, setup.problem, state)
        save(directory.last, values, setup.problem, state, whole=True)
        pool, ddp = start_pool(setup), start_processes(setup, directory)
        layout = OF_GIVEN if setup.settings.instances else OF_POOL if setup.settings.pool else LAYOUT
        dashboard, terminal = Dashboard(directory.path, state.epoch, layout), Terminal()
        with resumable(directory), pool, ddp, dashboard, terminal, stopper, cpu_threads(setup.threads):
            where = f"{hardware(setup.device)}, {setup.precision}, workers={setup.workers}"
            terminal.say(f"{setup.problem.name} on {where}")
            terminal.say(f"writing {directory.path}")
            dashboard.config(config, command.flat(cfg))
            say_notices(terminal, setup.validation)
            if setup.run.init and state.best_cost == math.inf and not setup.settings.instances:
                accept_init(setup, state, pool, terminal)
            recorder = RunRecorder(directory, setup, values, first, pool, dashboard, terminal, stopper, state.epoch)
            execution = Execution(setup.device, setup.precision, ddp, terminal.progress, stopper)
            yield arguments(setup, state, pool, execution), recorder
            over = state.epoch >= setup.settings.epochs or state.stale(setup.settings.patience)
            terminal.summary(state, None if over else stopper.reason, directory, setup.settings.instances)


def arguments(setup: Setup, state: TrainState, pool: SearchPool, execution: Execution) -> dict[str, Any]:
    """Of `train.self_improvement` and `active_search`, all but the recorder."""
    return {
        "problem": setup.problem,
        "state": state,
        "settings": setup.settings,
        "search": setup.search,
        "pool": pool,
        "validation": setup.validation,
        "seed": setup.run.seed,
        "execution": execution,
    }


def accept_init(setup: Setup, state: TrainState, pool: SearchPool, terminal: Terminal) -> None:
    """Validate the policy that training begins with: the first trained one has to beat it."""
    pool.load(state.best.state_dict())
    state.accept(validate(pool, setup.validation, terminal.progress))
    terminal.say(f"init={setup.run.init}: greedy cost {state.best_cost:.4f} on the validation instances")


def open_directory(run: RunSettings, problem: str, config: str) -> RunDirectory:
    """The run's directory: an earlier one to continue, the one asked for, or a new one named after the time."""
    if run.resume:
        return RunDirectory.open(Path(run.resume))
    named_by_time = Path("runs", problem, datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
    return RunDirectory.create(Path(run.run_dir or named_by_time), unique=run.run_dir is None, config=config)


def initial_state(setup: Setup, directory: RunDirectory) -> tuple[TrainState, dict[str, torch.Tensor] | None]:
    """The training state, new or as the last checkpoint left it, and the weights training began with.

    Those of init= are not known any more when the run goes on: None.
    """
    keep_freed_memory()
    state = TrainState(
        policy=setup.policy,
        best=copy.deepcopy(setup.policy),
        optimizer=setup.optimizer,
        dataset=PseudoExperts(directory.dataset),
    )
    first = None if setup.run.init and setup.run.resume else copy.deepcopy(setup.policy.state_dict())
    for shard in setup.experts:  # kept in the run directory: a continued run does not need the file again
        state.dataset.add(*shard)
    if setup.run.resume:
        saved = checkpoint.load(directory.last)
        with checkpoint.checkpoint_errors(directory.last):
            state.load_state_dict(saved["train_state"], saved["weights"], type(setup.validation[0].instances))
        if setup.settings.epochs < state.epoch:
            raise ValueError(f"train.epochs={setup.settings.epochs} is less than the {state.epoch} epochs done")
        directory.forget_metrics_after(state.epoch)
    return state, first


def start_pool(setup: Setup) -> SearchPool:
    """Where the training's searches run."""
    return SearchPool(
        setup.problem,
        setup.policy,
        setup.workers,
        setup.search_batch_rows,
        str(setup.device),
        setup.precision,
        setup.run.worker_threads,
        compiled=setup.run.compile and setup.device.type == "cuda",  # on CPUs compiled layers sample more slowly
        beside_training=True,
    )


def start_processes(setup: Setup, directory: RunDirectory) -> SingleProcess | DDPLauncher:
    """The processes that train."""
    if len(setup.train_processes) == 1:
        return SINGLE_PROCESS
    task = DDPTask(
        problem=setup.problem,
        policy=copy.deepcopy(setup.policy).cpu(),
        settings=setup.settings,
        seed=setup.run.seed,
        precision=setup.precision,
        compiled=setup.run.compile,
        devices=setup.train_processes,
        threads=setup.threads,
        dataset=directory.dataset,
        instance_type=type(setup.validation[0].instances),
        fit=fit,
    )
    return DDPLauncher(task)


@contextmanager
def resumable(directory: RunDirectory) -> Iterator[None]:
    """What ends the training says where it can be continued from.

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
