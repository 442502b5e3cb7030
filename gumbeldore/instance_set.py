"""Instances to be solved: a set of one size, with their true cost and what is known of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gumbeldore.batches import batch_size


def as_they_are(index: Tensor, actions: Tensor) -> Tensor:
    """Solutions without an adjustment."""
    return actions


def _side_by_side(actions: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """L solutions of each of m instances, [m, L, T], as [m * L, T], with the index [m * L] of the instance of each."""
    return torch.arange(first, first + len(actions)).repeat_interleave(actions.shape[1]), actions.flatten(0, 1)


class InstanceSet(NamedTuple):
    """Instances of one size to be solved, with their true cost and what is known of them."""

    names: list[str]  # n
    instances: Any  # [n, ...] as the network sees them, of the same types as `Problem.generate` makes
    originals: Any  # [n, ...] in their own units, as solvers and pictures see them; None: as `instances` (`checked`)
    true_cost: Callable[[Tensor, Tensor], Tensor]  # (index [m], actions [m, T]) -> cost [m] float64, of the originals
    references: Tensor  # [n] float64 cost of the reference solution; NaN where there is none, or 0 unless `pooled`
    kinds: list[str]  # n; how good each reference is, e.g. "optimal (Concorde)"; empty where there is none
    means: dict[str, float] = {}  # further reference by its kind, known only as the mean cost of all n
    solutions: dict[int, Tensor] = {}  # by index, the actions [T] of those references that are more than a cost
    lower_bounds: Tensor | None = None  # [n] float64: no solution of an instance costs less; None: nothing is known
    pooled: bool = False  # a mean gap is the ratio of the summed costs, less 1: where a good solution may cost 0
    # (index [m], actions [m, T]) -> solutions [m, T] that cost no more: where a search cannot see the true costs
    adjusted: Callable[[Tensor, Tensor], Tensor] = as_they_are
    # Of the source, which may have several sets; the first can speak for all.
    warnings: list[str] = []  # a line each: what of the source was not used as one may expect, and why
    left_out: dict[str, str] = {}  # by file, why its instances are in no InstanceSet

    def costs(self, actions: Tensor, first: int = 0) -> Tensor:
        """The true costs [m, L] float64 of L solutions of each of m instances, `actions` [m, L, T], from `first` on.

        Those [m] of one solution each, `actions` [m, T].
        """
        each = actions[:, None] if actions.dim() == 2 else actions
        return self.true_cost(*_side_by_side(each, first)).view(actions.shape[:-1])

    def adjust(self, actions: Tensor, first: int = 0) -> Tensor:
        """The solutions, as `costs` takes them, each as `adjusted` makes it."""
        return self.adjusted(*_side_by_side(actions, first)).view_as(actions)

    def gaps(self, costs: Tensor, rows: Tensor | slice = slice(None), scale: Tensor | None = None) -> Tensor:
        """Gaps to the references of the instances `rows`, whose costs are [m, ...]; NaN where there is none.

        Arguments:
            scale: of `mean_reference`, if the gaps are parts of it, as a mean of gaps needs; None: of each reference
        """
        references = self.references[rows].view(-1, *[1] * (costs.dim() - 1))
        return gaps_to(references, costs) if scale is None else (costs - references) / scale

    def part(self, rows: Tensor) -> InstanceSet:
        """Some of the instances, numbers int64 [m], as a set; what is known of the mean of all is left out."""
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
            adjusted=lambda index, actions: self.adjusted(rows[index], actions),
            references=of(self.references),
            kinds=of(self.kinds),
            means={},
            solutions={i: self.solutions[place] for i, place in enumerate(places) if place in self.solutions},
            lower_bounds=None if self.lower_bounds is None else self.lower_bounds[rows],
        )


def checked(found: Any, source: str, limit: int | None = None) -> list[InstanceSet]:
    """The instance sets that a problem returned, validated; those without originals have the instances as such.

    A reference cost of 0 is replaced by NaN, with a warning.

    Arguments:
        source: what gave the instance sets; error messages begin with it

    Raises ValueError naming the rule if these are not instance sets with at most `limit` instances in all.
    """
    rule = f"{source} must return a list with an InstanceSet for each size"
    if not isinstance(found, list) or not found or not all(isinstance(each, InstanceSet) for each in found):
        got = [type(each).__name__ for each in found] if isinstance(found, list) else type(found).__name__
        raise ValueError(f"{rule}, got {got}")
    for instance_set in found:
        n = len(instance_set.names)
        counts = {"instances": batch_size(instance_set.instances), "kinds": len(instance_set.kinds)}
        if wrong := [name for name, count in counts.items() if count != n]:
            raise ValueError(f"{rule}: one has {n} names and {counts[wrong[0]]} {wrong[0]}")
        bounds = {} if instance_set.lower_bounds is None else {"lower_bounds": instance_set.lower_bounds}
        for name, values in {"references": instance_set.references, **bounds}.items():
            if not isinstance(values, Tensor) or values.shape != (n,) or values.dtype != torch.float64:
                held = f"{values.dtype} {list(values.shape)}" if isinstance(values, Tensor) else type(values)
                raise ValueError(f"{rule}: {name} must be a float64 Tensor [{n}], got {held}")
    if limit is not None and count_of(found) > limit:
        raise ValueError(f"{source} must return {limit} instances at most, got {count_of(found)}")
    return list(map(_normalised, found))


def _writable(names: list[str]) -> list[str]:
    """The names; bytes of a file's name that are no UTF-8, which no file can hold, become words: `\\udcff`."""
    return [name.encode(errors="backslashreplace").decode() for name in names]


def _normalised(instance_set: InstanceSet) -> InstanceSet:
    originals = instance_set.instances if instance_set.originals is None else instance_set.originals
    return _without_zeros(instance_set._replace(names=_writable(instance_set.names), originals=originals))


def _without_zeros(instance_set: InstanceSet) -> InstanceSet:
    zero = (instance_set.references == 0).nonzero().flatten().tolist()
    if not zero or instance_set.pooled:
        return instance_set
    references, kinds = instance_set.references.clone(), list(instance_set.kinds)
    for place in zero:
        references[place], kinds[place] = float("nan"), ""
    solutions = {place: each for place, each in instance_set.solutions.items() if place not in zero}
    names = instance_set.names[zero[0]] + (f" and {len(zero) - 1} more" if len(zero) > 1 else "")
    warning = f"{names}: the reference cost 0 is taken as unknown, as no gap to it can be computed"
    warnings = [*instance_set.warnings, warning]
    return instance_set._replace(references=references, kinds=kinds, solutions=solutions, warnings=warnings)


def gaps_to(references: Tensor, costs: Tensor) -> Tensor:
    """cost / reference - 1, above 0 where the cost is higher also if costs are negative; NaN without a reference.

    To a reference of 0, equal costs have the gap 0, others none: NaN. The tensors are of shapes that go together.
    """
    return ((costs / references - 1) * references.sign()).masked_fill(costs == references, 0.0)


def mean_reference(instance_sets: list[InstanceSet]) -> Tensor | None:
    """The mean reference of all instances that have one, which gaps are parts of; None unless the sets are `pooled`."""
    if not instance_sets[0].pooled:
        return None
    return torch.cat([instance_set.references for instance_set in instance_sets]).nanmean()


def mean_gap(instance_sets: list[InstanceSet], costs: list[Tensor]) -> float:
    """The mean gap of the costs [n] of each set, over the instances that have a reference.

    If the sets are `pooled`, this is the sum of these costs, divided by that of the references, less 1. NaN if there
    is no reference, or their sum is 0.
    """
    scale = mean_reference(instance_sets)
    pairs = zip(instance_sets, costs, strict=True)
    gap = torch.cat([instance_set.gaps(each, scale=scale) for instance_set, each in pairs]).nanmean().item()
    return gap if math.isfinite(gap) else math.nan


def count_of(instance_sets: list[InstanceSet]) -> int:
    """The number of instances of all sets."""
    return sum(len(instance_set.names) for instance_set in instance_sets)


def by_set(instance_sets: list[InstanceSet], indices: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Instances of several sets, which are numbered through, one set after the other.

    Arguments:
        indices: int64 [m] of some instances, each once, in any order

    Yields for each set that has some of them: its place, where they stand in `indices` (bool [m]), and their
    numbers in the set, in the same order.
    """
    first = 0
    for place, instance_set in enumerate(instance_sets):
        mine = (indices >= first) & (indices < first + len(instance_set.names))
        if mine.any():
            yield place, mine, indices[mine] - first
        first += len(instance_set.names)


class TooFewError(ValueError):
    """A source has fewer instances than are asked for."""


class MixedSizesError(ValueError):
    """Instances that are to be of one size are not; alone, each may be right."""


class WrongProblemError(ValueError):
    """A source that a problem does not know: it may be of another problem."""
