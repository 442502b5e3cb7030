"""The objects of a training, made and checked from the configuration before any file is written."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import torch
from omegaconf import DictConfig

from gumbeldore.benchmark import Benchmark
from gumbeldore.cli import parts
from gumbeldore.cli.overrides import check_groups
from gumbeldore.cli.settings import RunSettings
from gumbeldore.evaluation.loading import start_from
from gumbeldore.evaluation.sources import load
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import (
    resolve_device,
    resolve_processes,
    resolve_rows,
    resolve_threads,
    resolve_workers,
)
from gumbeldore.runtime.building import check_keys
from gumbeldore.runtime.compiling import check_compiler, compile_layers
from gumbeldore.runtime.precision import dtype_of, resolve_precision
from gumbeldore.sampler.methods import Method
from gumbeldore.sampler.search import check_offered
from gumbeldore.seeding import fold, generator
from gumbeldore.training.dataset import Shard, read_experts
from gumbeldore.training.expert_pool import in_turns
from gumbeldore.training.optimizer import Optimizers, optimizer_of
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.validation import validation_set


class Setup(NamedTuple):
    """The objects of a run, made and checked before any file is written."""

    run: RunSettings
    settings: TrainSettings
    problem: Problem
    policy: Policy
    search: Method
    validation: list[Benchmark]  # of active search, the given instances
    device: torch.device
    precision: str
    workers: int
    search_batch_rows: int
    train_processes: list[str]  # the device of each
    threads: int  # of each process that trains
    optimizer: Optimizers
    experts: list[Shard]  # given ones; none if all are to be sampled


def set_up(cfg: DictConfig) -> Setup:
    """Build and check everything a run needs."""
    run = RunSettings.of(cfg)
    check_groups(cfg, [field.name for field in fields(RunSettings)])
    check_keys(cfg.train, [field.name for field in fields(TrainSettings)], "train")
    settings = TrainSettings(**cfg.train)
    device = resolve_device(run.device)
    precision = resolve_precision(run.precision, device)
    problem = parts.build_part(cfg, "problem", Problem)
    with torch.random.fork_rng():
        torch.manual_seed(int(fold(run.seed, "weights")))
        policy = parts.build_part(cfg, "model", Policy).to(device)
    if policy.problem not in (None, problem.name):
        raise ValueError(f"model {cfg.model._target_} is not for problem {problem.name}, but for {policy.problem}")
    if run.init and not run.resume:
        start_from(policy, problem, run.init, parts.plain(cfg.model))
    if run.compile:
        check_compiler(device)
        compile_layers(policy)
    search = parts.training_search(cfg)
    if settings.instances is None:
        validation = validation_set(problem, settings.validation_instances, run.seed)
        stages = (problem.curriculum(progress) for progress in (0, 1))  # the smallest and the largest instances
        searched = [stage.generate(1, generator(run.seed, "check")) for stage in stages]
    else:
        validation = load(problem, settings.instances)
        searched = [benchmark.instances for benchmark in validation]
    experts: list[Shard] = []
    if settings.experts is not None and not run.resume:  # a continued run has them in its dataset
        experts = read_experts(Path(settings.experts), problem, validation[0].instances)
    if settings.pool is not None:
        experts = in_turns(experts, settings.instances_per_epoch)
        searched = [*searched[1:], *(shard.instances for shard in experts)]  # none but those of full size
    for instances in searched:
        check_offered(problem, policy, instances, search)
    parts.join_cluster(cfg, problem, policy)
    train_processes = resolve_processes(run.train_processes, device, settings.batch_size)
    threads = resolve_threads(run.train_threads, len(train_processes))
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
        experts=experts,
    )
