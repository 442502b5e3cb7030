"""Training: `python train.py problem=tsp`; `python train.py --help` lists what can be set."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import torch
import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gumbeldore.cli import command, parts
from gumbeldore.cli.overrides import check_effect
from gumbeldore.cli.settings import RunSettings
from gumbeldore.evaluation.loading import start_from
from gumbeldore.interfaces import Benchmark, Problem
from gumbeldore.parallel.devices import (
    cpu_threads,
    resolve_device,
    resolve_processes,
    resolve_rows,
    resolve_threads,
    resolve_workers,
)
from gumbeldore.parallel.pool import SearchPool, WorkerError
from gumbeldore.reporting import figures as pictures
from gumbeldore.reporting.console import Terminal, hardware
from gumbeldore.reporting.tensorboard import Dashboard
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.building import check_keys
from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import dtype_of, resolve_precision
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.sampler.config import SearchConfig
from gumbeldore.seeding import fold
from gumbeldore.training.dataset import PseudoExperts, Shard, read_experts
from gumbeldore.training.distributed import SINGLE_PROCESS, DDPLauncher, DDPTask, SingleProcess
from gumbeldore.training.imitation import fit
from gumbeldore.training.loop import accept, self_improvement
from gumbeldore.training.optimizer import Optimizers, optimizer_of
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate, validation_set

# A continued run may change these. The harmless ones change no result, but for the last bits of matrix products by
# search_batch_rows; the others do.
HARMLESS = ("resume", "time_limit", "workers", "search_batch_rows", "images_every", "checkpoint_every", "ray.address")
OTHERS = (
    "device",
    "precision",
    "train_processes",
    "train_threads",
    "worker_threads",
    "train.epochs",
    "train.cooldown_epochs",
)
RESUMABLE = (*HARMLESS, *OTHERS)
OF_DEVICE = ("search_batch_rows", "train_processes", "train_threads")  # on another device these are decided anew


class Setup(NamedTuple):
    """The objects of a run, made and checked before any file is."""

    run: RunSettings
    settings: TrainSettings
    problem: Problem
    policy: torch.nn.Module
    search: SearchConfig
    validation: list[Benchmark]
    device: torch.device
    precision: str
    workers: int
    search_batch_rows: int
    train_processes: list[str]  # the device of each
    threads: int  # of each trainer
    optimizer: Optimizers
    experts: list[Shard]  # given ones; none if they are to be sampled


def train(cfg: DictConfig) -> dict[str, float]:
    """Train as configured; returns the metrics of the last complete epoch (empty if there was none)."""
    if cfg.resume:
        cfg = continued(cfg)
    elif HydraConfig.initialized():
        check_effect(cfg, HydraConfig.get().overrides.task)
    setup = set_up(cfg)
    # A continued run decides nothing anew, unless it is asked to.
    cfg.precision, cfg.train_processes, cfg.train_threads = setup.precision, len(setup.train_processes), setup.threads
    cfg.search_batch_rows, cfg.resume = setup.search_batch_rows, None
    config = OmegaConf.to_yaml(cfg, resolve=True)
    with open_directory(setup.run, setup.problem.name, config) as directory:
        return train_in(directory, cfg, setup, config)


def train_in(directory: RunDirectory, cfg: DictConfig, setup: Setup, config: str) -> dict[str, float]:
    """Train in a directory that no other run has."""
    run, problem, validation = setup.run, setup.problem, setup.validation
    stopper = Stopper(run.time_limit)
    train_state, first = start(setup, directory)
    if run.resume:
        directory.write_config(config)  # what was changed holds from now on

    def save(path: Path, **more) -> None:
        content = {
            "config": OmegaConf.to_container(cfg, resolve=True),
            "problem": problem.name,
            "epoch": train_state.epoch,
        }
        checkpoint.save(
            path, {**content, "best_cost": train_state.best_cost, "weights": train_state.best.state_dict(), **more}
        )

    save(directory.best)  # also of a continued run: an epoch that was cut short may have left a better one
    save(directory.last, train_state=train_state.state_dict())
    pool = SearchPool(
        problem,
        setup.policy,
        setup.workers,
        setup.search_batch_rows,
        str(setup.device),
        setup.precision,
        run.worker_threads,
        compiled=run.compile and setup.device.type == "cuda",  # on CPUs compiled layers sample more slowly
    )
    metrics: dict[str, float] = {}
    ddp = start_trainers(setup, directory)
    dashboard = Dashboard(directory.path, train_state.epoch)
    with (
        resumable(directory),
        pool,
        ddp,
        dashboard,
        Terminal() as terminal,
        stopper,
        cpu_threads(setup.threads),
    ):
        terminal.say(f"{problem.name} on {hardware(setup.device)}, {setup.precision}, workers={setup.workers}")
        terminal.say(f"writing {directory.path}")
        dashboard.config(config, command.flat(cfg))
        before = train_state.epoch
        if run.init and train_state.best_cost == math.inf:  # the first trained policy has to beat the one it began as
            pool.load(train_state.best.state_dict())
            accept(train_state, validate(pool, validation, terminal.progress))
            terminal.say(f"init={run.init}: greedy cost {train_state.best_cost:.4f} on the validation instances")
        for report in self_improvement(
            problem,
            train_state,
            setup.settings,
            setup.search,
            pool,
            validation,
            seed=run.seed,
            device=setup.device,
            precision=setup.precision,
            progress=terminal.progress,
            stop=stopper,
            ddp=ddp,
        ):
            if report.improved:
                save(directory.best)
            if not report.complete:
                break  # last.pt stays at the end of the epoch before, from where the run can be continued exactly
            metrics = report.metrics
            directory.append_metrics({"epoch": report.epoch, **metrics})
            save(directory.last, train_state=train_state.state_dict())
            train_state.dataset.prune()
            if run.checkpoint_every and report.epoch % run.checkpoint_every == 0:
                save(directory.snapshot(report.epoch))
                directory.thin_out_snapshots()
            dashboard.epoch(report.epoch, metrics)
            terminal.epoch(report, setup.settings.epochs)
            if before + 1 == report.epoch < setup.settings.epochs and not stopper():
                growing = setup.settings.samples and grows(problem, before / setup.settings.epochs)
                terminal.time_left(report, setup.settings.epochs, stopper.seconds_left(), growing)
            if report.epoch % run.images_every == 0 or report.epoch == setup.settings.epochs:
                policies = {"first policy": first, "best policy": train_state.best.state_dict()}
                figure = pictures.solutions_of(problem, pool, validation[0], policies, setup.search, run.seed)
                dashboard.figure("validation/solutions", figure, report.epoch)
        terminal.summary(train_state, stopper.reason, directory)
    return metrics


def grows(problem: Problem, progress: float) -> bool:
    """Whether training instances take more decisions at the end than after a share `progress` of the epochs."""
    if not hasattr(problem, "at"):
        return False
    stages = (problem.at(progress), problem.at(1.0))
    now, last = (stage.horizon(stage.generate(1, torch.Generator().manual_seed(0))) for stage in stages)
    return now < last


@contextmanager
def resumable(directory: RunDirectory) -> Iterator[None]:
    """What ends the training says where it can be continued from."""
    try:
        yield
    except (ValueError, OSError, WorkerError) as error:
        kind = WorkerError if isinstance(error, WorkerError) else ValueError
        raise kind(f"{error}; {directory.last} is intact, resume={directory.path} goes on from it") from error


def continued(cfg: DictConfig) -> DictConfig:
    """The configuration of the run to continue; ValueError if more is asked of it than it can change."""
    overrides = HydraConfig.get().overrides.task
    fixed = [word for word in overrides if word.split("=")[0] not in RESUMABLE]
    if fixed:
        raise ValueError(f"resume continues a run as it was configured; of {', '.join(RESUMABLE)} only, not {fixed[0]}")
    with RunDirectory.open(Path(cfg.resume)) as directory:
        saved = read_config(directory.config)
    ours, theirs = keys_of(cfg), keys_of(saved)
    for few, many, what in ((theirs, ours, "lacks"), (ours, theirs, "has")):
        if unknown := [key for key in many if key not in few]:
            where = f"another version made this run, {directory.config} {what} {unknown[0]}"
            raise ValueError(f"resume={cfg.resume}: {where}; a new run can begin with its weights (init=)")
    given = [word.split("=")[0] for word in overrides]
    for key in given:
        OmegaConf.update(saved, key, OmegaConf.select(cfg, key))
    for key in OF_DEVICE if "device" in given else ():
        if key not in given:
            saved[key] = "auto"
    return saved


def read_config(path: Path) -> DictConfig:
    """The configuration of an earlier run. Raises ValueError if somebody has changed the file so that it is none."""
    try:
        config = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException, OSError) as error:
        raise ValueError(f"{path} is not the configuration of a run: {str(error).splitlines()[0]}") from None
    if not OmegaConf.is_dict(config) or not OmegaConf.is_dict(config.get("train")):
        raise ValueError(f"{path} is not the configuration of a run: it has no keys of train")
    return config


def keys_of(cfg: DictConfig) -> list[str]:
    """Those that every run has, whatever its problem and its search."""
    return [*cfg, *(f"train.{key}" for key in cfg.train)]


def set_up(cfg: DictConfig) -> Setup:
    """Build and check everything a run needs."""
    run = RunSettings.of(cfg)
    check_keys(cfg.train, [field.name for field in fields(TrainSettings)], "train")
    settings = TrainSettings(**cfg.train)
    device = resolve_device(run.device)
    precision = resolve_precision(run.precision, device)
    problem = parts.build_part(cfg, "problem", "reset", "step", "mask", "cost")
    if getattr(problem, "nearest", None) is not None:
        raise ValueError("problem.nearest is for evaluation: experts may go to other customers, too")
    with torch.random.fork_rng():
        torch.manual_seed(int(fold(run.seed, "weights")))
        policy = parts.build_part(cfg, "model", "encode", "forward").to(device)
    if getattr(policy, "problem", problem.name) != problem.name:
        raise ValueError(f"model {cfg.model._target_} is not for problem {problem.name}, but for {policy.problem}")
    if run.init and not run.resume:
        start_from(policy, problem, run.init)
    if run.compile:
        compile_layers(policy)
    search = parts.training_search(cfg)
    parts.join_cluster(cfg, problem, policy)
    validation = validation_set(problem, settings.validation_instances, run.seed)
    train_processes = resolve_processes(run.train_processes, device, settings.batch_size)
    threads = resolve_threads(run.train_threads, len(train_processes))
    given = not settings.samples and not run.resume
    return Setup(
        run=run,
        settings=settings,
        problem=problem,
        policy=policy,
        search=search,
        validation=validation,
        device=device,
        precision=precision,
        workers=resolve_workers(run.workers, device, run.worker_threads),
        search_batch_rows=resolve_rows(run.search_batch_rows, device),
        train_processes=train_processes,
        threads=threads,
        optimizer=optimizer_of(policy, settings, dtype_of(precision)),
        experts=read_experts(Path(settings.experts).expanduser(), problem, validation[0].instances) if given else [],
    )


def open_directory(run: RunSettings, problem: str, config: str) -> RunDirectory:
    """The run's directory: an earlier one to continue, the one asked for, or a new one named after the time."""
    if run.resume:
        return RunDirectory.open(Path(run.resume))
    named_by_time = Path("runs", problem, datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
    return RunDirectory.create(Path(run.run_dir or named_by_time), unique=run.run_dir is None, config=config)


def start(setup: Setup, directory: RunDirectory) -> tuple[TrainState, dict[str, torch.Tensor]]:
    """The training state, new or as the last checkpoint left it, and the weights training began with."""
    keep_freed_memory()
    train_state = TrainState(
        policy=setup.policy,
        ema=copy.deepcopy(setup.policy) if setup.settings.ema_decay else None,
        best=copy.deepcopy(setup.policy),
        optimizer=setup.optimizer,
        dataset=PseudoExperts(directory.dataset),
    )
    first = copy.deepcopy(setup.policy.state_dict())
    for shard in setup.experts:  # kept in the run directory: a continued run does not need the file again
        train_state.dataset.add(*shard)
    if setup.run.resume:
        saved = checkpoint.load(directory.last, (checkpoint.FORMAT,))
        with checkpoint.checkpoint_errors(directory.last):
            train_state.load_state_dict(saved["train_state"], saved["weights"], type(setup.validation[0].instances))
        if setup.settings.epochs < train_state.epoch:
            raise ValueError(f"train.epochs={setup.settings.epochs} is less than the {train_state.epoch} epochs done")
        directory.forget_metrics_after(train_state.epoch)
    return train_state, first


def start_trainers(setup: Setup, directory: RunDirectory) -> SingleProcess | DDPLauncher:
    """The processes that train."""
    if len(setup.train_processes) == 1:
        return SINGLE_PROCESS
    instance_type = type(setup.validation[0].instances)
    policy = copy.deepcopy(setup.policy).cpu()
    parts = setup.problem, policy, setup.settings, setup.run.seed, setup.precision, setup.run.compile
    return DDPLauncher(DDPTask(*parts, setup.train_processes, setup.threads, directory.dataset, instance_type, fit))


def main() -> None:
    command.run(train, "train")


if __name__ == "__main__":
    main()
