"""What evaluate.py and study.py share: the policy, the machine, the instances, the folder of the results."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from omegaconf import DictConfig

from gumbeldore.benchmark import Benchmark, TooFewError, count_of
from gumbeldore.cli import command, parts
from gumbeldore.cli.overrides import check_effect, typed_keys, typed_words
from gumbeldore.cli.settings import EvaluationSettings
from gumbeldore.evaluation import results
from gumbeldore.evaluation.baseline import Baseline
from gumbeldore.evaluation.choosing import Choice, choose_policies
from gumbeldore.evaluation.kept import MANIFEST, fingerprint
from gumbeldore.evaluation.loading import LoadedPolicy, load_policy, meant_for
from gumbeldore.evaluation.sources import load, numbered
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device, resolve_rows, resolve_workers, trie_budget
from gumbeldore.parallel.pool import SearchPool, at_once
from gumbeldore.reporting.console import Terminal, hardware
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler.methods import Method

MOST_NOTICES = 10  # lines on the terminal
# Keys that change no solution, or whose content is compared instead (see `decisive`).
HARMLESS = (
    *("checkpoint", "instances", "num_instances", "references", "out_dir", "resume"),
    *("workers", "solver.workers", "methods.solver.workers", "ray.address"),
)


class Machine(NamedTuple):
    """Where an evaluation runs."""

    device: torch.device
    precision: str  # resolved
    compiled: bool  # the network's layers
    workers: int
    search_batch_rows: int

    @classmethod
    def of(cls, run: EvaluationSettings) -> Machine:
        """As the configuration says, with the cluster's room for workers if `open_policy` has joined one.

        Raises ValueError for what is not there.
        """
        device = resolve_device(run.device)
        if run.compile and device.type == "cpu":
            raise ValueError(f"compile=true is for a GPU, device={run.device} is a CPU: it would search more slowly")
        workers = resolve_workers(run.workers, device, run.worker_threads)
        rows = resolve_rows(run.search_batch_rows, device)
        return cls(device, resolve_precision(run.precision, device), run.compile, workers, rows)

    def pool(self, problem: Problem, policy: Policy, threads: int) -> SearchPool:
        """Where the searches run."""
        where = str(self.device), self.precision
        return SearchPool(
            problem, policy, self.workers, self.search_batch_rows, *where, threads, compiled=self.compiled
        )

    def __str__(self) -> str:
        return f"{hardware(self.device)}, {self.precision}, {self.workers or 'no'} workers"


def open_policy(cfg: DictConfig, checkpoint: str) -> LoadedPolicy:
    """The policy to evaluate; `cfg` gets what the machine decides."""
    loaded = load_policy(checkpoint, **parts.plain(cfg.problem))
    _prepare(cfg, [loaded])
    return loaded


def open_policies(cfg: DictConfig, run: EvaluationSettings) -> list[Choice]:
    """The policy to evaluate and the instances; where none is asked for, those that are chosen for the instances.

    Raises ValueError also for values that nothing reads.
    """
    check_effect(cfg, typed_words())
    if run.checkpoint is not None:
        loaded = open_policy(cfg, run.checkpoint)
        return [Choice(loaded, numbered(instances_for(loaded, run)), "")]
    chosen = choose_policies(run.instances, run.num_instances, parts.plain(cfg.problem))
    _prepare(cfg, [choice.loaded for choice in chosen])
    return chosen


def _prepare(cfg: DictConfig, policies: list[LoadedPolicy]) -> None:
    """Join the cluster, decide on the solvers' workers."""
    keep_freed_memory()
    if "ray" in cfg:
        parts.join_cluster(cfg, *(x for loaded in policies for x in (loaded.problem, loaded.policy)))
    cfg.solver.workers = resolve_workers(cfg.solver.workers, torch.device("cpu"), 1, key="solver.workers")


class Task(NamedTuple):
    """What is done with one policy."""

    loaded: LoadedPolicy
    places: slice  # of its benchmarks among all
    methods: dict[str, Method | Baseline]


def tasks_of(cfg: DictConfig, choices: list[Choice]) -> list[Task]:
    """Every policy with the methods, which take its step size. Raises ValueError for methods that cannot be used."""
    tasks: list[Task] = []
    for choice in choices:
        methods = parts.build_methods(cfg, choice.loaded)
        for name, method in methods.items():
            parts.check_method(name, method, choice.loaded, choice.benchmarks)
        first = tasks[-1].places.stop if tasks else 0
        places = slice(first, first + len(choice.benchmarks))
        tasks.append(Task(choice.loaded, places, methods))
    return tasks


def without_idle_workers(machine: Machine, tasks: list[Task], benchmarks: list[Benchmark]) -> Machine:
    """The machine without workers if no search has more instances of a size than are searched together."""
    rows, budget = machine.search_batch_rows, trie_budget(str(machine.device))
    chunks = [
        full_chunks(task.loaded.problem, task.loaded.policy, benchmarks[task.places], method, rows, budget)
        for task in tasks
        for method in task.methods.values()
        if isinstance(method, Method)
    ]
    return machine if max(chunks, default=0) > 1 else machine._replace(workers=0)


def full_chunks(
    problem: Problem,
    policy: Policy,
    benchmarks: list[Benchmark],
    search: Method,
    search_batch_rows: int,
    budget: int,
) -> float:
    """The most instances of a size, which are searched by themselves, measured in full chunks: the most at a time."""
    return max(
        len(x.names) / at_once(problem, policy, x.instances, search, search_batch_rows, budget) for x in benchmarks
    )


def instances_for(loaded: LoadedPolicy, run: EvaluationSettings) -> list[Benchmark]:
    """What is asked for; a number of instances that nobody has typed, a default, is the most to take.

    Raises ValueError; if the instances are of another problem, it says whose the policy is.
    """
    with meant_for(loaded):
        try:
            return load(loaded.problem, run.instances, run.num_instances)
        except TooFewError:
            if "num_instances" in typed_keys(typed_words()):
                raise
            return load(loaded.problem, run.instances)


def say_notices(terminal: Terminal, benchmarks: list[Benchmark]) -> None:
    """What is left out and why, and other surprises, the first of them."""
    lines = results.notices(benchmarks)
    for line in lines[:MOST_NOTICES]:
        terminal.say(line)
    if len(lines) > MOST_NOTICES:
        terminal.say(f"and {len(lines) - MOST_NOTICES} more such lines, {len(lines)} in all")


@contextmanager
def advancing(
    terminal: Terminal, phase: str, benchmarks: list[Benchmark], done: int = 0
) -> Iterator[Callable[[int], None]]:
    """A function to be called with the number of instances done since the last call; `done` are so before the first."""
    count = count_of(benchmarks)
    terminal.progress(phase, done, count)

    def advance(instances: int) -> None:
        nonlocal done
        done += instances
        terminal.progress(phase, done, count)

    yield advance


def new_directory(run: EvaluationSettings) -> Path:
    """The folder of the results, not made yet.

    Raises ValueError if there is anything in it but results to go on with: nothing of the user's is overwritten.
    """
    if run.resume and run.out_dir is None:
        raise ValueError("resume=true needs out_dir=, the folder of the evaluation to go on with")
    path = Path(run.out_dir or Path("evaluations", datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")))
    if path.exists() and not path.is_dir():
        raise ValueError(f"out_dir={path} is not a folder; choose another")
    kept = (path / MANIFEST).exists()
    if kept and not run.resume:
        raise ValueError(f"out_dir={path} holds results already; choose another, or go on with them by resume=true")
    begun = {path / MANIFEST.parent, path / MANIFEST.parent / "lock"}  # by another process, which has written no more
    if not kept and any(found not in begun for found in path.rglob("*")):  # the first of them will do
        raise ValueError(f"out_dir={path} is not empty, and holds no results to go on with; choose another")
    return path


def decisive(cfg: DictConfig, machine: Machine, checkpoints: list[Path], benchmarks: list[Benchmark]) -> dict[str, Any]:
    """All that the solutions depend on: it must be the same when an evaluation goes on."""
    values = {key: value for key, value in command.flat(cfg).items() if key not in HARMLESS}
    values |= {"device": str(machine.device), "precision": machine.precision}
    values["random keys"] = "by content"  # of the instances; an evaluation by their places does not go on
    values |= {"search_batch_rows": machine.search_batch_rows, "instances (sha256)": fingerprint(benchmarks)}
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in checkpoints]
    return {**values, "checkpoint (sha256)": " ".join(digests)}


def goes_on(done: int, count: int | str, out_dir: Path) -> KeyboardInterrupt:
    """What an interrupted evaluation says at its end: how many searches of an instance are kept, and how it goes on.

    Arguments:
        count: how many there are, as a number or in words
    """
    words = shlex.join([f"out_dir={out_dir}", "resume=true"])
    kept = f"{done} of {count} searches are finished and kept"
    return KeyboardInterrupt(f"interrupted: {kept}; the same command with {words} goes on")


def typed() -> str:
    """The command as it was typed."""
    program, *words = sys.argv
    return shlex.join([*(["python"] if program.endswith(".py") else []), program, *words])
