"""Searching many instances, in chunks: in this process, or on Ray actors that live as long as the run.

How instances are cut into chunks is part of the configuration, and an instance's randomness is its key's: results
do not depend on the number of workers. Each chunk is searched with the same number of threads everywhere, because
the last bits of a matrix product may depend on it.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gumbeldore.interfaces import Problem, batch_size, take, to
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import InPrecision
from gumbeldore.search import SearchConfig, Solutions, search
from gumbeldore.stopping import Stopped


class WorkerError(RuntimeError):
    """A worker failed; the message holds its error."""


class Worker:
    """Searches chunks of instances with the policy it was last given.

    Arguments:
        policy: becomes the worker's own
        device, precision: where and how the network runs (precision resolved)
        threads: of CPU work per chunk
    """

    def __init__(self, problem: Problem, policy: nn.Module, device: str, precision: str, threads: int):
        self.problem = problem
        self.device = torch.device(device)
        self.threads = threads
        self.policy = policy.to(self.device).eval()
        self.asked = InPrecision(self.policy, self.device, precision)

    def load(self, weights: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(weights)

    def search(self, instances: Any, keys: Tensor, config: SearchConfig) -> Solutions:
        with _threads(self.threads):
            found = search(self.problem, self.asked, to(instances, self.device), config, keys=keys)
        tensors = (field.cpu() if isinstance(field, Tensor) else field for field in found)
        return Solutions(*tensors)


class SearchPool:
    """One or many workers behind one `map`.

    Arguments:
        workers: Ray actors; 0 searches in this process, without Ray
        chunk_rows: beam rows (instances * beam width) searched together
    """

    def __init__(
        self,
        problem: Problem,
        policy: nn.Module,
        workers: int = 0,
        chunk_rows: int = 1024,
        device: str = "cpu",
        precision: str = "float32",
        threads: int = 1,
    ):
        self.chunk_rows = chunk_rows
        arguments = (problem, copy.deepcopy(policy).cpu(), device, precision, threads)
        self.local = Worker(*arguments) if workers == 0 else None
        self.actors = [] if workers == 0 else _start_actors(workers, arguments)

    def load(self, weights: dict[str, Tensor]) -> None:
        """Give every worker these weights; they are stored once for all."""
        if self.local:
            self.local.load(weights)
            return
        import ray

        stored = ray.put({name: tensor.cpu() for name, tensor in weights.items()})
        with _worker_errors():
            ray.get([actor.load.remote(stored) for actor in self.actors])

    def map(
        self, instances: Any, keys: Tensor, config: SearchConfig, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[slice, Solutions]]:
        """Search all instances; yields (their indices, their solutions) chunk by chunk, in the order they finish.

        Raises WorkerError with the worker's own error text, and Stopped when `stop()` holds between two chunks or,
        with actors, while waiting for one.
        """
        size = max(1, self.chunk_rows // config.beam_width)
        count = batch_size(instances)
        chunks = [slice(first, min(first + size, count)) for first in range(0, count, size)]
        if self.local:
            for chunk in chunks:
                if stop():
                    raise Stopped
                yield chunk, self.local.search(take(instances, chunk), keys[chunk], config)
            return
        from ray.util import ActorPool

        def submit(actor, chunk: slice):
            # Cloned, or the whole batch's storage would travel with every chunk.
            part = type(instances)(*(tensor[chunk].clone() for tensor in instances))
            return actor.search_chunk.remote(chunk, part, keys[chunk].clone(), config)

        pool = ActorPool(self.actors)
        for chunk in chunks:
            pool.submit(submit, chunk)
        while pool.has_next():
            if stop():
                raise Stopped
            with _worker_errors():
                try:
                    found = pool.get_next_unordered(timeout=0.5)
                except TimeoutError:
                    continue
            yield found

    def close(self) -> None:
        """End the actors."""
        if self.actors:
            import ray

            for actor in self.actors:
                ray.kill(actor)
            self.actors = []

    def __enter__(self) -> SearchPool:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def resolve_device(device: str) -> torch.device:
    """The device a user means; 'auto' is the GPU if there is one. Raises ValueError if it is not there."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={device} cannot be used: {str(error).splitlines()[0]}") from None
    return resolved


def resolve_workers(workers: int | str, device: torch.device, threads: int) -> int:
    """The number of Ray actors; 'auto' is one per GPU, or as many as keep all cores busy.

    On CPUs, actors of one thread sample faster than one process of several, most of all on a machine that is busy
    with other things, where threads wait for each other at the end of every operation (measured, see docs/log.md).
    """
    if workers == "auto":
        if device.type == "cuda":
            return torch.cuda.device_count() if device.index is None else 0
        return max(1, available_cores() // threads)
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 0:
        raise ValueError(f"workers must be 'auto' or an integer of at least 0, got {workers!r}")
    if workers and device.index is not None:
        raise ValueError(f"device={device} is one GPU, which this process uses itself: workers=0, or device=cuda")
    return workers


def resolve_trainers(trainers: int | str, device: torch.device) -> list[str]:
    """The device of each process that trains; auto: every GPU, or one process on a CPU.

    Raises ValueError for a bad value, or for more processes than GPUs.
    """
    gpus = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 1
    if trainers == "auto":
        trainers = gpus
    if not isinstance(trainers, int) or isinstance(trainers, bool) or trainers < 1:
        raise ValueError(f"trainers must be 'auto' or an integer of at least 1, got {trainers!r}")
    if device.type == "cuda" and trainers > gpus:
        raise ValueError(f"trainers={trainers} need as many GPUs, device={device} are {gpus}")
    return (
        [str(device)] if trainers == 1 else [f"cuda:{i}" if device.type == "cuda" else "cpu" for i in range(trainers)]
    )


def available_cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def start_ray(num_cpus: int) -> None:
    """A Ray of this machine, unless this process has one already; several pools share it and it ends with the process.

    Raises ValueError where Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise ValueError(f"workers={num_cpus} needs the package ray; install it or use workers=0") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its default only earns a warning
    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=max(num_cpus, available_cores()),
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
        )


def _start_actors(workers: int, arguments: tuple) -> list:
    start_ray(workers)
    import ray

    device = arguments[2]

    class RayWorker(Worker):
        def __init__(self, *arguments: Any):
            keep_freed_memory()
            super().__init__(*arguments)

        def search_chunk(self, chunk: slice, instances: Any, keys: Tensor, config: SearchConfig):
            return chunk, self.search(instances, keys, config)

    on_gpus = device.startswith("cuda")
    share = 1 / math.ceil(workers / torch.cuda.device_count()) if on_gpus else 0  # whole actors per GPU
    actor_class = ray.remote(num_cpus=0, num_gpus=share)(RayWorker)  # as many as were asked for, busy machine or not
    return [actor_class.remote(*arguments) for _ in range(workers)]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _worker_errors() -> Iterator[None]:
    import ray

    try:
        yield
    except ray.exceptions.RayTaskError as error:
        raise WorkerError(f"a worker failed: {error.cause!r}\n{error}") from None
    except ray.exceptions.RayActorError as error:
        raise WorkerError(f"a worker died: {error}") from None
