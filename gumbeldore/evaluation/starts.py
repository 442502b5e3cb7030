"""What a search with the policy finds for a solver to start from."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gumbeldore.benchmark import Benchmark
from gumbeldore.evaluation.benchmarks import instance_keys
from gumbeldore.interfaces import Policy
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.errors import instance_errors
from gumbeldore.sampler.config import SearchConfig
from gumbeldore.training.true_costs import SampledSolutions, best_solutions


class Start(NamedTuple):
    """A solution with the time that was spent on it."""

    actions: Tensor  # [T]
    seconds: float  # wall-clock of the search, where it ran


class StartSearch(NamedTuple):
    """How starts are searched for."""

    config: SearchConfig
    decisive: str  # all that decides what the search finds of an instance, apart from the instance and its random key


class Starts:
    """The starts of a benchmark's instances, searched for when a solver asks for them.

    One instance is searched at a time by each worker of the pool, so that the time of its search is known. It has the
    random key of `solve_benchmark`: the start is what the method alone would find.

    Arguments:
        seed: with an instance's content, decides its samples
        rows: the instances, by their places in the benchmark; None: all of them
    """

    def __init__(
        self, pool: SearchPool, benchmark: Benchmark, search: StartSearch, seed: int, rows: slice | None = None
    ):
        self.pool, self.benchmark, self.search, self.seed = pool, benchmark, search, seed
        self.first = rows.start if rows else 0
        self.keys = instance_keys(benchmark, seed)

    def part(self, rows: slice) -> Starts:
        """Those of some of the instances, which are counted from `rows.start` then."""
        return Starts(self.pool, self.benchmark, self.search, self.seed, rows)

    def decisive(self, index: int) -> str:
        """All that decides an instance's start, apart from the instance itself. Known before the search."""
        return f"{self.search.decisive} {int(self.keys[self.first + index])}"

    def find(self, indices: list[int]) -> Iterator[tuple[int, Start]]:
        """Search; yields (index, its best solution by the true cost) in the order they are found.

        Raises ValueError naming an instance that the policy or the problem cannot deal with.
        """
        chunks = [slice(self.first + i, self.first + i + 1) for i in indices]
        instances, config = self.benchmark.instances, self.search.config
        with instance_errors(self.benchmark, self.keys):
            for _, chunk, sampled in self.pool.map_all(
                instances, self.keys, [config], read=SampledSolutions.of, chunks=chunks
            ):
                begin = time.perf_counter()
                actions, *_ = best_solutions(self.benchmark, chunk, sampled)
                seconds = sampled.stats.seconds + time.perf_counter() - begin
                yield chunk.start - self.first, Start(actions[0], seconds)


def weights_hash(policy: Policy) -> str:
    """A hash of a policy's weights, whatever file they are in."""
    digest = hashlib.sha256()
    for name, tensor in policy.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
