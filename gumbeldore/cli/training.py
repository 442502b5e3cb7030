"""A run of training: everything that its algorithm needs, from the configuration to open files and processes."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig, OmegaConf

from gumbeldore.cli import resume
from gumbeldore.cli.configuration import Configuration, to_plain
from gumbeldore.cli.run_recorder import OpenRun, RunRecorder, save
from gumbeldore.cli.schema import RunSettings
from gumbeldore.cli.setup import Setup, set_up
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem, size_name
from gumbeldore.parallel.devices import cpu_threads
from gumbeldore.reporting.console import Terminal
from gumbeldore.reporting.tensorboard import Dashboard
from gumbeldore.runtime.checkpoint import SHIPPED
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.training.dataset import PseudoExperts, Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.incumbents import Incumbents
from gumbeldore.training.ranks import Ranks
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate

CURVES = SHIPPED / "curves"


class Training(NamedTuple):
    """An open training."""

    run: OpenRun
    state: TrainState
    execution: Execution
    recorder: RunRecorder


@contextmanager
def open_training(cfg: DictConfig, ranks: Ranks) -> Iterator[Training]:
    """The training that the configuration describes; the run's directory is locked until the end.

    Arguments:
        ranks: the processes that share each batch, of which this one is the first
    """
    config = Configuration(cfg)
    if cfg.resume:
        config = resume.continued(config)
    setup = set_up(config, ranks.size)
    text = kept_config(config.cfg, setup)
    with open_directory(setup.run, setup.problem.name, text) as directory, ExitStack() as opened:
        stopper = Stopper(setup.run.time_limit)
        state = initial_state(setup, directory)
        # The weights of init= are not known any more when the run goes on.
        first = None if setup.run.init and setup.run.resume else copy.deepcopy(setup.policy.state_dict())
        if setup.run.resume:
            resume.restore(state, directory, type(setup.validation[0].instances), setup.settings.epochs)
            if setup.settings.instances:  # an active search refuses other instances before it writes anything
                Incumbents.of(setup.problem, setup.validation, state.dataset.shards)
            directory.write_config(text)  # what was changed holds from now on
        values = to_plain(config.cfg)
        # Also of a continued run: an epoch that was cut short may have left a better policy.
        save(directory.best, values, setup.problem, state)
        save(directory.last, values, setup.problem, state, whole=True)
        pool = setup.machine.pool(setup.problem, setup.policy, beside_training=True)
        dashboard, terminal = Dashboard(directory.path, state.epoch), Terminal()
        # The advice of `resumable` is for errors of all others; the signals of `stopper` are for what is computed.
        for each in (resume.resumable(directory), pool, dashboard, terminal, stopper, cpu_threads(setup.threads)):
            opened.enter_context(each)
        dashboard.config(text)
        if not setup.run.resume:
            dashboard.hyperparameters(config.hyperparameters(), given=bool(setup.settings.instances))
        if curve := preset_curve(config):
            dashboard.beside("preset", curve)
        run = OpenRun(setup, values, directory, pool, dashboard, terminal, stopper)
        introduce(run, state)
        recorder = RunRecorder(run, first, state.epoch)
        device, precision = setup.machine.device, setup.machine.precision
        ranks.start_run(setup.problem, state, setup.settings, precision, setup.run.compile)
        execution = Execution(setup.run.seed, recorder, device, precision, ranks, terminal.progress, stopper)
        yield Training(run, state, execution, recorder)
        reason = None if state.is_over(setup.settings) else stopper.reason
        terminal.summary(state, reason, directory, setup.settings.instances)


def kept_config(cfg: DictConfig, setup: Setup) -> str:
    """Write what `auto` has come to into the configuration; returns its YAML. A continued run decides nothing anew."""
    cfg.train_threads, cfg.resume = setup.threads, None
    cfg.merge_with(setup.machine.decided)
    if setup.settings.instances and Path(setup.settings.instances).exists():  # files are found from every folder
        cfg.train.instances = str(Path(setup.settings.instances).resolve())
    return OmegaConf.to_yaml(cfg, resolve=True)


def preset_curve(config: Configuration) -> list[dict[str, float]]:
    """The shipped metrics of the preset's own training, epoch by epoch; none if this training differs, or goes on."""
    path = CURVES / f"{config.preset()}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def open_directory(run: RunSettings, problem: str, config: str) -> RunDirectory:
    """The run's directory: an earlier one to continue, the one asked for, or a new one named after the time."""
    if run.resume:
        return RunDirectory.open(Path(run.resume))
    named_by_time = Path("runs", problem, datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
    return RunDirectory.create(Path(run.run_dir or named_by_time), unique=run.run_dir is None, config=config)


def initial_state(setup: Setup, directory: RunDirectory) -> TrainState:
    """The state of a new training."""
    keep_freed_memory()
    dataset = PseudoExperts(directory.dataset)
    for shard in setup.experts:  # kept in the run directory: a continued run does not need the file again
        dataset.add(shard)
    return TrainState(setup.policy, copy.deepcopy(setup.policy), setup.optimizer, dataset)


def introduce(run: OpenRun, state: TrainState) -> None:
    """Say what begins; and validate the policy of init=: the first trained policy has to beat it."""
    setup, terminal = run.setup, run.terminal
    terminal.say(f"{setup.problem.name} on {setup.machine}")
    terminal.say(f"writing {run.directory.path}")
    terminal.notices(setup.validation)
    if setup.experts:
        experts, validation = (sizes(setup.problem, sets) for sets in (setup.experts, setup.validation))
        terminal.say(f"experts of size {experts}; validation instances of size {validation}")
    if setup.run.init and state.best_cost == math.inf and not setup.settings.instances:
        state.accept(validate(run.pool, state.best, setup.validation, terminal.progress))
        terminal.say(f"init={setup.run.init}: greedy cost {state.best_cost:.4f} on the validation instances")


def sizes(problem: Problem, sets: Sequence[Shard | InstanceSet]) -> str:
    """The sizes of instances, in words."""
    return ", ".join(dict.fromkeys(size_name(problem, each.instances) for each in sets))
