"""Instances that are given from Python: files, arrays, lists of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from gumbeldore.benchmark import Benchmark, checked, count_of
from gumbeldore.evaluation.loading import LoadedPolicy, meant_for
from gumbeldore.interfaces import Problem

Arrays = Mapping[str, Any]  # of one instance, by the names that docs/data.md gives those of an .npz
Source = str | Path | Arrays
RULE = "a path, or arrays by name, {'coords': ...}"


class Group(NamedTuple):
    """Instances that are searched together."""

    benchmark: Benchmark
    places: list[int]  # of its instances among all that were given


def load(problem: Problem, source: str, limit: int | None = None) -> list[Benchmark]:
    """What the problem loads. Raises ValueError as the problem does, and if it returns what it must not."""
    return checked(problem.load(source, limit), f"{type(problem).__name__}.load", limit)


def of_one(loaded: LoadedPolicy, source: Source, limit: int | None = None) -> list[Group]:
    """All instances of one source. Raises ValueError as the problem does."""
    if isinstance(source, Mapping):
        return _of_arrays(loaded, {0: source}, ["instance"])
    groups: list[Group] = []
    first = 0
    for benchmark in _of_path(loaded, source, f"instances must be {RULE}, or a list of such", limit):
        groups.append(Group(benchmark, list(range(first, first + len(benchmark.names)))))
        first += len(benchmark.names)
    return groups


def of_several(loaded: LoadedPolicy, sources: Sequence[Source]) -> list[Group]:
    """One instance of each source. Raises ValueError as the problem does, and for a source that holds more."""
    if not sources:
        raise ValueError("instances is an empty list")
    names = [f"instances[{place}]" for place in range(len(sources))]
    arrays = {place: source for place, source in enumerate(sources) if isinstance(source, Mapping)}
    groups = _of_arrays(loaded, arrays, names)
    for place, source in enumerate(sources):
        if not isinstance(source, Mapping):
            benchmarks = _of_path(loaded, source, f"{names[place]} must be {RULE}")
            if (count := count_of(benchmarks)) > 1:
                raise ValueError(f"{names[place]}: {source} holds {count} instances; give it alone, not in a list")
            groups.append(Group(benchmarks[0], [place]))
    return groups


def _of_path(loaded: LoadedPolicy, source: str | Path, rule: str, limit: int | None = None) -> list[Benchmark]:
    """The instances of a file, a folder or a standard set. Raises ValueError with the rule for what is no path."""
    if not isinstance(source, (str, Path)) or source == "":
        raise ValueError(f"{rule}; got {repr(source) if isinstance(source, str) else type(source).__name__}")
    with meant_for(loaded):
        return load(loaded.problem, str(source), limit)


def _of_arrays(loaded: LoadedPolicy, instances: Mapping[int, Arrays], names: Sequence[str]) -> list[Group]:
    """Instances given as arrays, those of the same shapes together.

    Arguments:
        instances: by their places
        names: of all places
    """
    batches = {
        place: {name: _array(value, f"{names[place]}: {name}") for name, value in arrays.items()}
        for place, arrays in instances.items()
    }
    same: dict[Any, list[int]] = {}
    for place, arrays in batches.items():
        shapes = sorted((name, array.shape, array.dtype.kind) for name, array in arrays.items())
        same.setdefault(tuple(shapes), []).append(place)
    return [Group(_stacked(loaded, batches, places, names), places) for places in same.values()]


def _stacked(
    loaded: LoadedPolicy, batches: Mapping[int, Mapping[str, np.ndarray]], places: list[int], names: Sequence[str]
) -> Benchmark:
    """The instances at some places, whose arrays have the same shapes."""
    from_arrays = loaded.problem.from_arrays
    together = {name: np.stack([batches[place][name] for place in places]) for name in batches[places[0]]}
    with meant_for(loaded):
        try:
            benchmark = from_arrays(together, "the arrays")
        except ValueError:
            for place in places:  # the message must name the one that is wrong
                alone = {name: array[None] for name, array in batches[place].items()}
                from_arrays(alone, f"{names[place]} (n = 1)")
            raise
    named = benchmark._replace(names=[names[place] for place in places])
    return checked([named], f"{type(loaded.problem).__name__}.from_arrays")[0]


def _array(value: Any, where: str) -> np.ndarray:
    """The array that a value of the user is. Raises ValueError that begins with `where` if it is none."""
    if np.ma.is_masked(value):
        raise ValueError(f"{where} has masked values")
    try:
        return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths, bf16, sparse tensors
        raise ValueError(f"{where} is no array: {str(error).splitlines()[0]}") from None
