"""Searching many instances, in chunks: in this process, or on Ray actors that live as long as the run.

How instances are cut into chunks is part of the configuration, and an instance's randomness is its key's: results
do not depend on the number of workers. Each chunk is searched with the same number of threads everywhere, because
the last bits of a matrix product may depend on it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, take, to
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel import ray_cluster
from gumbeldore.parallel.devices import CPU_BATCH_ROWS, cpu_threads, trie_budget, workers_per_gpu
from gumbeldore.parallel.ray_actors import Actors
from gumbeldore.runtime.compiling import compile_layers, layers_of
from gumbeldore.runtime.errors import advice_on_memory
from gumbeldore.runtime.gpu import use_device
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import InPrecision
from gumbeldore.runtime.stopping import Stop, Stopped, never
from gumbeldore.sampler.methods import Anytime, Method
from gumbeldore.sampler.search import search, unsearched
from gumbeldore.sampler.solutions import Solutions

SMALLEST_CHUNK = 1 / 8  # of search_batch_rows: a batch of two such chunks is split, so that two workers can share it
TRIE_GROWTH = 8  # a search with a time limit may find up to 8 times the expected number of solutions

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
        compiled: whether the network's layers are, see `gumbeldore.runtime.compiling`
        sharing: processes that use the worker's GPU, the worker included
    """

    def __init__(
        self,
        problem: Problem,
        policy: Policy,
        device: str,
        precision: str,
        threads: int,
        compiled: bool,
        sharing: int = 1,
    ):
        self.problem = problem
        self.device, self.sharing = torch.device(device), sharing
        use_device(self.device, sharing)
        self.memory = trie_budget(device)
        self.threads = threads
        self.policy = policy.to(self.device).eval()
        if compiled:
            compile_layers(self.policy)
        self.policy_in_precision = InPrecision(self.policy, self.device, precision).eval()

    def load(self, weights: dict[str, Tensor]) -> None:
        self.policy.load_state_dict(weights)

    def search(self, instances: Any, keys: Tensor, method: Method, read: Read, start: Tensor | None = None) -> Any:
        """Raises WorkerError if memory does not suffice."""
        remedy = "search_batch_rows" if len(keys) > 1 else "search.beam_width"  # of one instance
        with cpu_threads(self.threads), advice_on_memory(f"a search ran out of memory; lower {remedy}"):
            instances = to(instances, self.device)
            start = None if start is None else start.to(self.device)
            policy, budget = self.policy_in_precision, self.memory
            found = search(self.problem, policy, instances, method, keys=keys, trie_budget=budget, start=start)
            wanted = read(found)
        tensors = (field.cpu() if isinstance(field, Tensor) else field for field in wanted)
        return type(wanted)(*tensors)


class RemoteWorker(Worker):
    """A worker as a Ray actor. Weights come with every chunk, so that a restarted actor has them, too."""

    def __init__(self, *arguments: Any):
        keep_freed_memory()
        super().__init__(*arguments)
        self.loaded = ""

    def work(self, weights: list, *job: Any) -> Any:
        """`search`; `weights` holds a reference to them, of which Ray fetches the value only when asked."""
        import ray

        (stored,) = weights
        if stored.hex() != self.loaded:
            self.load(ray.get(stored))
            self.loaded = stored.hex()
        found = self.search(*job)
        if self.sharing > 1:
            torch.cuda.empty_cache()  # what torch keeps of freed memory the others could not use
        return found


class SearchPool:
    """One or many workers behind one `map`.

    Arguments:
        workers: Ray actors; 0 searches in this process, without Ray
        search_batch_rows: beam rows (instances * beam width) searched together; fewer where their trie would outgrow
            `trie_budget`
        device, precision, threads, compiled: as of `Worker`
        beside_training: whether other processes train on the workers' GPUs meanwhile, and need memory there, too
    """

    def __init__(
        self,
        problem: Problem,
        policy: Policy,
        workers: int = 0,
        search_batch_rows: int = CPU_BATCH_ROWS,
        device: str = "cpu",
        precision: str = "float32",
        threads: int = 1,
        compiled: bool = False,
        beside_training: bool = False,
    ):
        self.problem, self.policy = problem, policy
        self.search_batch_rows = search_batch_rows
        if compiled:
            layers_of(policy)  # an error in a worker would come late
        where = torch.device(device)
        self.gpu_workers = max(1, workers) if where.type == "cuda" else 0
        per_gpu = workers_per_gpu(workers, where)
        sharing = per_gpu + beside_training if per_gpu else 1
        use_device(where, sharing)
        self.trie_budget = trie_budget(device)
        arguments = (problem, copy.deepcopy(policy).cpu(), device, precision, threads, compiled, sharing)
        self.local = Worker(*arguments) if workers == 0 else None
        self.actors = None if workers == 0 else _start_actors(workers, per_gpu, threads, arguments)
        self.load(policy.state_dict())

    def load(self, weights: dict[str, Tensor]) -> None:
        """Search with these weights from now on; they are stored once for all workers."""
        if self.local:
            self.local.load(weights)
        else:
            assert self.actors is not None
            self.weights = self.actors.store({name: tensor.cpu() for name, tensor in weights.items()})

    def prepare(self) -> None:
        """Wait until the workers have started: what is timed is then the search alone."""
        if self.actors:
            self.actors.prepare()

    def map(
        self, instances: Any, keys: Tensor, method: Method, stop: Stop = never
    ) -> Iterator[tuple[slice, Solutions]]:
        """Search all instances; yields (their indices, their solutions) chunk by chunk, in the order they finish.

        Raises WorkerError, with the worker's own error text if it has one, and Stopped when `stop()` holds between two
        chunks or, with actors, while waiting for one.
        """
        return ((chunk, solutions) for _, chunk, solutions in self.map_all(instances, keys, [method], stop))

    def map_all(
        self,
        instances: Any,
        keys: Tensor,
        methods: Sequence[Method],
        stop: Stop = never,
        read: Read = all_of,
        chunks: Sequence[slice] | None = None,
        start: Tensor | None = None,
    ) -> Iterator[tuple[int, slice, Any]]:
        """`map` with several searches, none of which waits for the others; yields also which one it was.

        Arguments:
            read: called where a chunk was searched, on its device; only what it returns is sent back
            chunks: which instances are searched, and which of them together, instead of what `self.chunks` says
            start: solutions [n, T] from which those of the searches begin that improve some
        """
        division = [self.chunks(instances, method) if chunks is None else chunks for method in methods]
        jobs = [(which, chunk) for which, each in enumerate(division) for chunk in each]

        def rest(which: int, chunk: slice) -> tuple:  # cloned, or the whole batch's storage would travel with each
            own = start[chunk].clone() if start is not None and methods[which].takes_start else None
            return keys[chunk].clone(), methods[which], read, own

        if self.local:
            for which, chunk in jobs:
                if stop():
                    raise Stopped
                yield which, chunk, self.local.search(take(instances, chunk), *rest(which, chunk))
            return
        assert self.actors is not None
        weights = self.weights

        def job(number: int) -> tuple:
            which, chunk = jobs[number]
            part = type(instances)(*(tensor[chunk].clone() for tensor in instances))
            return [weights], part, *rest(which, chunk)

        for number, found in self.actors.map(len(jobs), job, stop):
            yield *jobs[number], found

    def chunks(self, instances: Any, method: Method) -> list[slice]:
        """Which instances are searched together: chunks of nearly equal size, so that no worker waits for another.

        On CPUs the chunks, and so all results, do not depend on the number of workers. Each worker on a GPU has a chunk
        at least.
        """
        count = batch_size(instances)
        size = at_once(self.problem, self.policy, instances, method, self.search_batch_rows, self.trie_budget)
        rows = count * method.rows
        least = self.gpu_workers or min(2, int(rows / self.search_batch_rows / SMALLEST_CHUNK))
        parts = max(min(count, least), -(-count // size))
        return [slice(count * i // parts, count * (i + 1) // parts) for i in range(parts)]

    def close(self) -> None:
        """End the actors."""
        if self.actors:
            self.actors.close()

    def __enter__(self) -> SearchPool:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def at_once(
    problem: Problem, policy: Policy, instances: Any, method: Method, search_batch_rows: int, budget: int
) -> int:
    """The most instances that are searched together: with that many rows, and tries that take `budget` bytes."""
    room = budget // method.trie_memory(unsearched(problem, policy, instances))
    if isinstance(method, Anytime):
        room //= TRIE_GROWTH
    return max(1, min(search_batch_rows // method.rows, room))


def _start_actors(workers: int, per_gpu: int, threads: int, arguments: tuple) -> Actors:
    ray_cluster.start_ray(workers)
    share = 1 / per_gpu if per_gpu else 0
    advice = "if they ran out of memory, lower search_batch_rows"
    return Actors(RemoteWorker, arguments, workers, advice, ray_cluster.placement(threads, share))
