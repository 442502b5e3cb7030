"""The objects of a training, made and checked from the configuration before any file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.machine import Machine
from gumbeldore.cli.schema import RunSettings
from gumbeldore.evaluation.loading import start_from
from gumbeldore.evaluation.sources import load
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import check_processes, resolve_device, resolve_threads
from gumbeldore.runtime.compiling import check_compiler, compile_layers
from gumbeldore.runtime.errors import advice_on_memory
from gumbeldore.runtime.precision import dtype_of
from gumbeldore.sampler.methods import Method
from gumbeldore.sampler.search import check_offered
from gumbeldore.seeding import fold, generator
from gumbeldore.training.dataset import Shard
from gumbeldore.training.experts import grows
from gumbeldore.training.given_experts import in_turns, read_experts
from gumbeldore.training.optimizer import Optimizers, optimizer_of
from gumbeldore.training.settings import ImitationSettings, SupervisedSettings, TrainSettings
from gumbeldore.training.validation import validation_set


class Setup(NamedTuple):
    """The objects of a run, made and checked before any file is written."""

    run: RunSettings
    settings: ImitationSettings
    problem: Problem
    policy: Policy
    search: Method
    validation: list[InstanceSet]  # of active search, the given instances
    machine: Machine
    threads: int  # of each process that trains
    optimizer: Optimizers
    experts: list[Shard]  # given ones; none if all are to be sampled


def set_up(config: Configuration, processes: int = 1) -> Setup:
    """Build and check everything a run needs.

    Arguments:
        processes: that share out each batch
    """
    config.apply_recipe()
    search = config.training_search()
    config.refuse_unknown_keys("train")
    run, settings = config.settings(RunSettings), config.algorithm()
    device = resolve_device(run.device)
    problem = config.part("problem", Problem)
    policy = policy_of(config, run, problem, device)
    with advice_on_memory("memory does not suffice for instances of this size; choose a smaller problem", ValueError):
        note_ineffective(config, settings, problem)
        config.refuse_unread()
        validation = validation_of(problem, settings, run.seed)
        experts = experts_of(problem, settings, validation, run.resume)
        for instances in searched(problem, settings, validation, experts, run.seed):
            check_offered(problem, policy, instances, search)
    config.join_cluster(problem, policy)
    check_processes(processes, device, settings.batch_size)
    machine = Machine.of(run)
    return Setup(
        run=run,
        settings=settings,
        problem=problem,
        policy=policy,
        search=search,
        validation=validation,
        machine=machine,
        threads=resolve_threads(run.train_threads, processes),
        optimizer=optimizer_of(policy, settings, dtype_of(machine.precision)),
        experts=experts,
    )


def policy_of(config: Configuration, run: RunSettings, problem: Problem, device: torch.device) -> Policy:
    """The network with random weights, or with those of init=."""
    with torch.random.fork_rng():
        torch.manual_seed(int(fold(run.seed, "weights")))
        policy = config.part("model", Policy).to(device)
    if policy.problem not in (None, problem.name):
        target = config.plain("model")["_target_"]
        raise ValueError(f"model {target} is not for problem {problem.name}, but for {policy.problem}")
    if run.init and not run.resume:
        start_from(policy, problem, run.init, config.plain("model"))
    if run.compile:
        check_compiler(device)
        compile_layers(policy)
    return policy


def validation_of(problem: Problem, settings: ImitationSettings, seed: int) -> list[InstanceSet]:
    """The validation instances; of active search, the given ones."""
    if isinstance(settings, (TrainSettings, SupervisedSettings)):
        return validation_set(problem, settings.validation_instances, seed)
    assert settings.instances is not None
    return load(problem, settings.instances)


def experts_of(
    problem: Problem, settings: ImitationSettings, validation: list[InstanceSet], resume: str | None
) -> list[Shard]:
    """The experts that are given; a continued run has them in its dataset."""
    if settings.experts is None or resume:
        return []
    experts = read_experts(Path(settings.experts), problem, validation[0].instances)
    return in_turns(experts, settings.instances_per_epoch) if isinstance(settings, TrainSettings) else experts


def searched(
    problem: Problem, settings: ImitationSettings, validation: list[InstanceSet], experts: list[Shard], seed: int
) -> list[Any]:
    """Instances of the smallest and the largest size, on which the search is checked."""
    if settings.instances is not None:
        return [instance_set.instances for instance_set in validation]
    smallest, largest = (problem.curriculum(share).generate(1, generator(seed, "check")) for share in (0, 1))
    return [smallest, largest] if settings.pool is None else [largest, *(shard.instances for shard in experts)]


def note_ineffective(config: Configuration, settings: ImitationSettings, problem: Problem) -> None:
    """Note which keys have no effect beside the others."""
    config.reads("ray", ["address"])  # by `join_cluster`, later
    if not isinstance(settings, TrainSettings) or settings.pool is not None:
        config.ignores("problem.grow", "where instances are given, or stay (train.pool)")
    elif "problem.grow" in config.typed and not grows(problem, 0.0):
        config.ignores("problem.grow", "where it begins with instances as large as the last ones")
    if isinstance(settings, TrainSettings) and settings.nucleus_after >= settings.epochs:
        why = f"with train.nucleus_after={settings.nucleus_after} and train.epochs={settings.epochs}"
        for key in ("search.top_p_start", "search.top_p_end"):
            config.ignores(key, f"{why}: the nucleus is 1 in all epochs")
