"""Searching many instances, in chunks: in this process, or on Ray actors that live as long as the run.

How instances are cut into chunks is part of the configuration, and an instance's randomness is its key's: results
do not depend on the number of workers. Each chunk is searched with the same number of threads everywhere, because
the last bits of a matrix product may depend on it.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gumbeldore import cluster
from gumbeldore.actors import Actors, WorkerError
from gumbeldore.compiling import compile_layers
from gumbeldore.interfaces import Problem, batch_size, take, to
from gumbeldore.memory import gpu_memory, keep_freed_memory
from gumbeldore.precision import InPrecision
from gumbeldore.search import SearchConfig, Solutions, search, trie_memory
from gumbeldore.stopping import Stopped

CPU_ROWS = 1024  # fastest of those measured, see docs/decisions.md
GPU_ROWS = 16384  # not measured: enough for every layer to fill a large GPU
WORTH = 8  # on CPUs few instances are cut in two for two workers to share where each has this part of the rows
GROWTH = 8  # times as many solutions as expected fit the trie of a search with a time limit

Read = Callable[[Solutions], Any]  # what is wanted of a search's solutions, as a NamedTuple


def all_of(solutions: Solutions) -> Solutions:
    """Everything."""
    return solutions


class Worker:
    """Searches chunks of instances with the policy it was last given.

    Arguments:
        policy: becomes the worker's own
        device, precision: where and how the network runs (precision resolved)
        threads: of CPU work per chunk
        compiled: whether the network's layers are, see `gumbeldore.compiling`
    """

    def __init__(self, problem: Problem, policy: nn.Module, device: str, precision: str, threads: int, compiled: bool):
        self.problem = problem
        self.memory = trie_budget(device)
        self.device = torch.device(device)
        self.threads = threads
        self.policy = policy.to(self.device).eval()
        if compiled:
            compile_layers(self.policy)
        self.asked = InPrecision(self.policy, self.device, precision)

    def load(self, weights: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(weights)

    def search(self, instances: Any, keys: Tensor, config: SearchConfig, read: Read) -> Any:
        """Raises WorkerError if memory does not suffice."""
        with cpu_threads(self.threads), _advice_on_memory():
            found = search(self.problem, self.asked, to(instances, self.device), config, keys=keys, memory=self.memory)
            wanted = read(found)
        tensors = (field.cpu() if isinstance(field, Tensor) else field for field in wanted)
        return type(wanted)(*tensors)


class RemoteWorker(Worker):
    """A worker as a Ray actor. Weights come with every chunk, so that one that was started anew has them, too."""

    def __init__(self, *arguments: Any):
        keep_freed_memory()
        super().__init__(*arguments)
        self.loaded = ""

    def work(self, weights: list, instances: Any, keys: Tensor, config: SearchConfig, read: Read) -> Any:
        """`weights` holds a reference to them, of which Ray fetches the value only when asked."""
        import ray

        (stored,) = weights
        if stored.hex() != self.loaded:
            self.load(ray.get(stored))
            self.loaded = stored.hex()
        return self.search(instances, keys, config, read)


class SearchPool:
    """One or many workers behind one `map`.

    Arguments:
        workers: Ray actors; 0 searches in this process, without Ray
        chunk_rows: beam rows (instances * beam width) searched together, but fewer where their trie would outgrow
            `trie_budget`
    """

    def __init__(
        self,
        problem: Problem,
        policy: nn.Module,
        workers: int = 0,
        chunk_rows: int = CPU_ROWS,
        device: str = "cpu",
        precision: str = "float32",
        threads: int = 1,
        compiled: bool = False,
    ):
        self.problem, self.policy = problem, policy
        self.chunk_rows = chunk_rows
        self.gpus = max(1, workers) if torch.device(device).type == "cuda" else 0
        self.trie_budget = trie_budget(device)
        arguments = (problem, copy.deepcopy(policy).cpu(), device, precision, threads, compiled)
        self.local = Worker(*arguments) if workers == 0 else None
        self.actors = None if workers == 0 else _start_actors(workers, arguments)
        self.load(policy.state_dict())

    def load(self, weights: dict[str, Tensor]) -> None:
        """Search with these weights from now on; they are stored once for all workers."""
        if self.local:
            self.local.load(weights)
        else:
            self.weights = self.actors.store({name: tensor.cpu() for name, tensor in weights.items()})

    def map(
        self, instances: Any, keys: Tensor, config: SearchConfig, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[slice, Solutions]]:
        """Search all instances; yields (their indices, their solutions) chunk by chunk, in the order they finish.

        Raises WorkerError, with the worker's own error text if it has one, and Stopped when `stop()` holds between two
        chunks or, with actors, while waiting for one.
        """
        return ((chunk, solutions) for _, chunk, solutions in self.map_all(instances, keys, [config], stop))

    def map_all(
        self,
        instances: Any,
        keys: Tensor,
        configs: Sequence[SearchConfig],
        stop: Callable[[], bool] = lambda: False,
        read: Read = all_of,
    ) -> Iterator[tuple[int, slice, Any]]:
        """`map` with several searches, none of which waits for the others; yields also which one it was.

        Arguments:
            read: called where a chunk was searched, on its device; only what it returns is sent back
        """
        jobs = [(which, chunk) for which, x in enumerate(configs) for chunk in self._chunks(instances, x)]
        if self.local:
            for which, chunk in jobs:
                if stop():
                    raise Stopped
                yield which, chunk, self.local.search(take(instances, chunk), keys[chunk], configs[which], read)
            return
        weights = self.weights

        def job(number: int) -> tuple:
            which, chunk = jobs[number]
            # Cloned, or the whole batch's storage would travel with every chunk.
            part = type(instances)(*(tensor[chunk].clone() for tensor in instances))
            return [weights], part, keys[chunk].clone(), configs[which], read

        for number, found in self.actors.map(len(jobs), job, stop):
            yield *jobs[number], found

    def _chunks(self, instances: Any, config: SearchConfig) -> list[slice]:
        """Which instances are searched together: parts as equal as can be, so that no worker waits for another.

        On CPUs the number of workers changes no part, and so no bit; GPUs have a part each at least.
        """
        count = batch_size(instances)
        size = at_once(self.problem, self.policy, instances, config, self.chunk_rows, self.trie_budget)
        shares = self.gpus or min(2, count * config.beam_width * WORTH // self.chunk_rows)
        parts = max(min(count, shares), -(-count // size))
        return [slice(count * i // parts, count * (i + 1) // parts) for i in range(parts)]

    def close(self) -> None:
        """End the actors."""
        if self.actors:
            self.actors.close()

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
    if resolved.type not in ("cpu", "cuda"):
        raise ValueError(f"device={device} cannot be used: cpu and cuda can")
    return resolved


def at_once(
    problem: Problem, policy: nn.Module, instances: Any, config: SearchConfig, chunk_rows: int, budget: int
) -> int:
    """How many of the instances are searched together, at most: so many rows, whose tries take so many bytes."""
    room = budget // trie_memory(problem, policy, instances, config)
    if config.time_limit is not None:
        room //= GROWTH
    return max(1, min(chunk_rows // config.beam_width, room))


def trie_budget(device: str) -> int:
    """Bytes that the trie of a chunk may take: a quarter of a GPU's memory, 2 GiB per worker on CPUs."""
    kind = torch.device(device)
    return gpu_memory(kind) // 4 if kind.type == "cuda" else 2**31


def resolve_workers(workers: int | str, device: torch.device, threads: int, key: str = "workers") -> int:
    """The number of Ray actors; 'auto' is one per GPU, or as many as keep all cores busy: of the cluster, if joined.

    With one GPU this process searches itself: what it samples and trains with shares the card's memory.

    On CPUs, actors of one thread sample faster than one process of several, most of all on a machine that is busy
    with other things, where threads wait for each other at the end of every operation (docs/decisions.md).

    Arguments:
        key: of the configuration
    """
    if workers == "auto":
        if device.type == "cuda":
            if device.index is not None:
                return 0
            gpus = cluster.gpus()
            return gpus if gpus > 1 or cluster.joined() else 0
        return cluster.room(threads)
    _check_count(key, workers, 0)
    if workers and device.index is not None:
        raise ValueError(f"device={device} is one GPU, which this process uses itself: workers=0, or device=cuda")
    return workers


def resolve_rows(rows: int | str, device: torch.device) -> int:
    """Beam rows searched together; 'auto' depends on the kind of device. Raises ValueError for a bad value."""
    if rows == "auto":
        return GPU_ROWS if device.type == "cuda" else CPU_ROWS
    _check_count("chunk_rows", rows, 1)
    return rows


def resolve_trainers(trainers: int | str, device: torch.device, batch_size: int) -> list[str]:
    """The device of each process that trains; auto: as many GPUs as share out a batch evenly, or one process on a CPU.

    Raises ValueError for a bad value, for more processes than GPUs, or if batches cannot be shared out evenly.
    """
    gpus = torch.cuda.device_count() if device.type == "cuda" and device.index is None else 1
    if trainers == "auto":
        trainers = max(n for n in range(1, max(1, gpus) + 1) if batch_size % n == 0)
    _check_count("trainers", trainers, 1)
    if device.type == "cuda" and trainers > gpus:
        raise ValueError(f"trainers={trainers} need as many GPUs, device={device} are {gpus}")
    if batch_size % trainers:
        raise ValueError(f"train.batch_size={batch_size} cannot be shared out evenly among trainers={trainers}")
    return (
        [str(device)] if trainers == 1 else [f"cuda:{i}" if device.type == "cuda" else "cpu" for i in range(trainers)]
    )


def resolve_threads(threads: int | str, trainers: int) -> int:
    """CPU threads of each process that trains; auto: all together one per core."""
    if threads == "auto":
        return max(1, torch.get_num_threads() // trainers)
    _check_count("trainer_threads", threads, 1)
    return threads


def _check_count(key: str, value: int | str, lowest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise ValueError(f"{key} must be 'auto' or an integer of at least {lowest}, got {value!r}")


def _start_actors(workers: int, arguments: tuple) -> Actors:
    cluster.start_ray(workers)
    device, threads = arguments[2], arguments[4]
    share = 1 / math.ceil(workers / cluster.gpus()) if device.startswith("cuda") else 0  # whole actors per GPU
    advice = "if they ran out of memory, lower chunk_rows"
    return Actors(RemoteWorker, arguments, workers, advice, cluster.placement(threads, share))


@contextlib.contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Let torch use so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def _advice_on_memory() -> Iterator[None]:
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        words = ("out of memory", "allocate memory")  # of torch's allocators, which raise RuntimeErrors
        if isinstance(error, MemoryError) or any(word in str(error) for word in words):
            raise WorkerError(f"a search ran out of memory; lower chunk_rows ({error!r})".split("\n")[0]) from None
        raise
