"""Instances to be solved: a set of one size, with their true cost and what is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch import Tensor


class Benchmark(NamedTuple):
    """Instances of one size to be solved, with their true cost and what is known of them."""

    names: list[str]  # n
    instances: Any  # [n, ...] as the network sees them
    originals: Any  # [n, ...] in their own units, as solvers and pictures see them; None where neither is wanted
    true_cost: Callable[[Tensor, Tensor], Tensor]  # (index [m], actions [m, T]) -> cost [m] float64, of the originals
    references: Tensor  # [n] float64 cost of the reference solution, NaN where there is none
    kinds: list[str]  # n; how good each reference is, e.g. "optimal (Concorde)"; empty where there is none
    means: dict[str, float] = {}  # further reference by its kind, known only as the mean cost of all n
    solutions: dict[int, Tensor] = {}  # by index, the actions [T] of those references that are more than a cost
    # Of the source, which may have several Benchmarks; the first can speak for all.
    warnings: list[str] = []  # a line each: what of the source was not used as one may expect, and why
    left_out: dict[str, str] = {}  # by file, why its instances are in no Benchmark

    def part(self, rows: Tensor) -> Benchmark:
        """Some of the instances, numbers int64 [m], as a benchmark; what is known of the mean of all is left out."""
        places = rows.tolist()

        def of(values: Any) -> Any:
            return values[rows] if isinstance(values, Tensor) else [values[i] for i in places]

        def of_all(fields: Any) -> Any:
            return None if fields is None else type(fields)(*map(of, fields))

        return self._replace(
            names=of(self.names),
            instances=of_all(self.instances),
            originals=of_all(self.originals),
            true_cost=lambda index, actions: self.true_cost(rows[index], actions),
            references=of(self.references),
            kinds=of(self.kinds),
            means={},
            solutions={i: self.solutions[place] for i, place in enumerate(places) if place in self.solutions},
        )


def count_of(benchmarks: list[Benchmark]) -> int:
    """The number of instances of all benchmarks."""
    return sum(len(benchmark.names) for benchmark in benchmarks)


def by_benchmark(benchmarks: list[Benchmark], indices: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Instances of several benchmarks, which are numbered through, one benchmark after the other.

    Arguments:
        indices: int64 [m] of some instances, each once, in any order

    Yields for each benchmark that has some of them: its place, where they stand in `indices` (bool [m]), and their
    numbers in the benchmark, in the same order.
    """
    first = 0
    for place, benchmark in enumerate(benchmarks):
        mine = (indices >= first) & (indices < first + len(benchmark.names))
        if mine.any():
            yield place, mine, indices[mine] - first
        first += len(benchmark.names)


class WrongProblemError(ValueError):
    """Instances that seem to be of another problem."""
