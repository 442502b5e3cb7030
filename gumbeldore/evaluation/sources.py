"""Instances that are given from Python: files, arrays, lists of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from gumbeldore.instance_set import InstanceSet, MixedSizesError, checked, count_of
from gumbeldore.interfaces import Problem
from gumbeldore.runtime.checked import LARGEST, is_integer

Arrays = Mapping[str, Any]  # by the names that docs/data.md gives those of an .npz: of one instance, or of several
Source = str | Path | Arrays
RULE = "a path, or arrays by name, {'coords': ...}"


class Group(NamedTuple):
    """Instances that are searched together."""

    instance_set: InstanceSet
    places: list[int]  # of its instances among all that were given

    def part(self, rows: Tensor) -> Group:
        """Some of them, numbers int64 [m]."""
        return Group(self.instance_set.part(rows), [self.places[row] for row in rows.tolist()])


def load_instances(
    problem: Problem,
    instances: Source | Sequence[Source] | None = None,
    *,
    num_instances: int | None = None,
    **arrays: Any,
) -> list[InstanceSet]:
    """Instances for `search`, with their costs and solutions in their own terms: an InstanceSet for each size.

    An InstanceSet's `instances` are what the policy sees, `costs` are in the units of the source, and
    `problem.reports.named_solution(instance_set.originals, index, actions)` is a solution in the problem's words.

    Arguments: as those of `solve`

    Raises ValueError as `solve` does.
    """
    if not isinstance(problem, Problem):
        raise ValueError(f"load_instances takes a problem, such as load_policy('tsp20').problem, got {problem!r}")
    return [group.instance_set for group in groups_of(problem, given(instances, num_instances, arrays), num_instances)]


def given(
    instances: Source | Sequence[Source] | None, num_instances: int | None, arrays: Arrays
) -> Source | Sequence[Source]:
    """What a call gives as instances. Raises ValueError unless it is one thing, and for a number that is none."""
    if (instances is None) == (not arrays):
        rule = "give instances, or their arrays by name: coords=..., times=..."
        first = "solve('tsp50', 'my.tsp'), or solve(instances='my.tsp'), which chooses a policy"
        got = [*(["instances"] if instances is not None else []), *arrays]
        raise ValueError(f"{rule}; got {' and '.join(got) or f'neither, which do not come first: {first}'}")
    if num_instances is not None:
        if not isinstance(instances, (str, Path)):
            raise ValueError("num_instances is of a source that holds several instances: a path, or the name of a set")
        if not is_integer(num_instances):
            raise ValueError(f"num_instances must be an integer, got {num_instances!r}")
    return arrays if instances is None else instances


def load(problem: Problem, source: str, limit: int | None = None) -> list[InstanceSet]:
    """What the problem loads. Raises ValueError as the problem does, and if it returns what it must not."""
    return checked(problem.load(source, limit), f"{type(problem).__name__}.load", limit)


def groups_of(problem: Problem, instances: Source | Sequence[Source], limit: int | None = None) -> list[Group]:
    """All instances of one source, or one of each source in a list. Raises ValueError as the problem does."""
    each = each_of(problem, instances)
    if each is not None:
        return _of_several(problem, each)
    if isinstance(instances, Mapping):
        return _of_arrays(problem, {0: instances}, ["instance"])
    return numbered(_of_path(problem, instances, f"instances must be {RULE}, or a list of such", limit))


def numbered(instance_sets: list[InstanceSet]) -> list[Group]:
    """All instances of the sets, in their order."""
    groups: list[Group] = []
    first = 0
    for instance_set in instance_sets:
        groups.append(Group(instance_set, list(range(first, first + len(instance_set.names)))))
        first += len(instance_set.names)
    return groups


def each_of(problem: Problem, instances: Source | Sequence[Source]) -> Sequence[Source] | None:
    """The source of each instance: those of a list, or the parts of arrays with one dimension more; else None.

    Raises ValueError for arrays of other numbers of instances; a single number or text is that of all.
    """
    if not isinstance(instances, Mapping):
        return instances if isinstance(instances, (list, tuple)) else None
    dimensions = {name: _dimensions(value) for name, value in instances.items()}
    first = next((name for name in problem.dimensions if name in instances), None)  # says whether they are several
    if first is None or dimensions[first] != problem.dimensions[first] + 1:
        return None
    count = len(instances[first])
    for name, value in instances.items():
        if dimensions[name] and len(value) != count:
            raise ValueError(f"{name} must be of {count} instances, as {first} is; got {len(value)}")
    return [{name: x[i] if dimensions[name] else x for name, x in instances.items()} for i in range(count)]


def _dimensions(value: Any) -> int:
    """Of an array, or of lists of arrays, which may differ in size."""
    if isinstance(value, (list, tuple)):
        return 1 + (_dimensions(value[0]) if value else 0)
    return getattr(value, "ndim", 0)


def _of_several(problem: Problem, sources: Sequence[Source]) -> list[Group]:
    """One instance of each source. Raises ValueError as the problem does, and for a source that holds more."""
    if not sources:
        raise ValueError("instances is an empty list")
    names = [f"instances[{place}]" for place in range(len(sources))]
    arrays = {place: source for place, source in enumerate(sources) if isinstance(source, Mapping)}
    groups = _of_arrays(problem, arrays, names)
    for place, source in enumerate(sources):
        if not isinstance(source, Mapping):
            instance_sets = _of_path(problem, source, f"{names[place]} must be {RULE}")
            if (count := count_of(instance_sets)) > 1:
                raise ValueError(f"{names[place]}: {source} holds {count} instances; give it alone, not in a list")
            groups.append(Group(instance_sets[0], [place]))
    return groups


def _of_path(problem: Problem, source: Any, rule: str, limit: int | None = None) -> list[InstanceSet]:
    """The instances of a file, a folder or a standard set. Raises ValueError with the rule for what is no path."""
    if not isinstance(source, (str, Path)) or source == "":
        raise ValueError(f"{rule}; got {repr(source) if isinstance(source, str) else type(source).__name__}")
    return load(problem, str(source), limit)


def _of_arrays(problem: Problem, instances: Mapping[int, Arrays], names: Sequence[str]) -> list[Group]:
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
    return [group for places in same.values() for group in _of_one_shape(problem, batches, places, names)]


def _of_one_shape(
    problem: Problem, batches: Mapping[int, Mapping[str, np.ndarray]], places: list[int], names: Sequence[str]
) -> list[Group]:
    """The instances at some places, whose arrays have the same shapes: together if they are of one size."""
    try:
        return [Group(_stacked(problem, batches, places, names), places)]
    except MixedSizesError:
        by_size: dict[int, list[int]] = {}
        for place in places:
            alone = _stacked(problem, batches, [place], names)
            by_size.setdefault(problem.horizon(alone.instances), []).append(place)
        return [Group(_stacked(problem, batches, same, names), same) for same in by_size.values()]


def _stacked(
    problem: Problem, batches: Mapping[int, Mapping[str, np.ndarray]], places: list[int], names: Sequence[str]
) -> InstanceSet:
    """The instances at some places, whose arrays have the same shapes."""
    together = {name: np.stack([batches[place][name] for place in places]) for name in batches[places[0]]}
    try:
        instance_set = problem.from_arrays(together, "the arrays")
    except MixedSizesError:
        raise
    except ValueError:
        for place in places:  # the message must name the one that is wrong
            alone = {name: array[None] for name, array in batches[place].items()}
            problem.from_arrays(alone, f"{names[place]} (n = 1)")
        raise
    own = dict(zip(instance_set.names, (names[place] for place in places), strict=True))
    heads = [line.partition(": ") for line in instance_set.warnings]  # that of an instance begins with its name
    lines = [own.get(name, name) + colon + rest for name, colon, rest in heads]
    named = instance_set._replace(names=list(own.values()), warnings=lines)
    return checked([named], f"{type(problem).__name__}.from_arrays")[0]


def _array(value: Any, where: str) -> np.ndarray:
    """The array that a value of the user is. Raises ValueError that begins with `where` if it is none."""
    if np.ma.is_masked(value):
        raise ValueError(f"{where} has masked values")
    try:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths, bf16, sparse tensors
        rows = "; rows must have the same length" if "inhomogeneous" in str(error) else ""
        raise ValueError(f"{where} is no array: {str(error).splitlines()[0]}{rows}") from None
    if array.dtype == object:
        for each in array.flat:
            if not isinstance(each, Real) or isinstance(each, Integral) and abs(int(each)) > LARGEST:
                what = "one beyond 64 bits" if isinstance(each, Integral) else type(each).__name__
                raise ValueError(f"{where} must consist of numbers, got {what}")
        return np.array(array.tolist())
    return array
