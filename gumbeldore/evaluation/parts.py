"""What a method has found, part by part: a part is kept whole as soon as it is finished, and not computed again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gumbeldore.batches import joined
from gumbeldore.runtime.files import atomic_write

SEARCH = "search"  # the name of what a search finds, which is one thing


class SolvedSet(NamedTuple):
    """The best solutions of one instance set, or of some of its instances."""

    actions: Tensor  # [n, T]
    costs: Tensor  # [n] float64, true costs; NaN of an instance that a baseline has not solved
    found: Tensor  # [n] int64 solutions sampled per instance
    samples: Tensor  # [n, L] float32 true costs of these in the order they were found, then NaN
    seconds: float  # wall-clock, all instances together
    evaluations: int  # of the network
    cut_short: int = 0  # instances whose search ended before its time limit, for want of memory
    greedy_alone: int = 0  # instances whose search had no time for more than the greedy solution
    bounds: Tensor | None = None  # [n] float64 of a solver: no solution costs less; NaN: nothing is known
    claims: list[str] | None = None  # n; how good a solver calls each solution, or why there is none

    @classmethod
    def without_policy(
        cls,
        actions: Tensor,
        costs: Tensor,
        seconds: float,
        bounds: Tensor | None = None,
        claims: list[str] | None = None,
    ) -> SolvedSet:
        """One solution [n, T] per instance, which no network has found."""
        found, samples = torch.ones_like(actions[:, 0]), costs[:, None].float()
        return cls(actions, costs, found, samples, seconds, 0, bounds=bounds, claims=claims)

    @property
    def unsolved(self) -> list[int]:
        return self.costs.isnan().nonzero().flatten().tolist()

    def part(self, rows: Tensor) -> SolvedSet:
        """What was found for some of the instances, numbers int64 [m]; time and evaluations are those of all."""
        fields: dict[str, Any] = {name: x[rows] for name, x in self._asdict().items() if isinstance(x, Tensor)}
        return self._replace(claims=self.claims and [self.claims[i] for i in rows.tolist()], **fields)


class Parts:
    """The finished parts of one method on one instance set: runs of instances, each with what was found for them.

    Arguments:
        folder: where a file per part is kept, and found again; None keeps them in memory alone
    """

    def __init__(self, folder: Path | None = None):
        self.folder = folder
        self.found: dict[tuple[int, int], dict[str, SolvedSet]] = {}  # by first instance and the one behind
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for path in folder.glob("*-*.npz"):
                first, _, end = path.stem.partition("-")
                if part := _read(path):
                    self.found[int(first), int(end)] = part

    def keep_only(self, rows: list[slice]) -> None:
        """Forget parts that are no parts of this division: another machine may divide otherwise."""
        for first, end in self.found.keys() - {(each.start, each.stop) for each in rows}:
            del self.found[first, end]
            if self.folder is not None:  # or its file would overlap with those of the new division
                self._file(first, end).unlink()

    def __contains__(self, rows: slice) -> bool:
        return (rows.start, rows.stop) in self.found

    def __len__(self) -> int:
        """The number of finished instances."""
        return sum(end - first for first, end in self.found)

    def lacks(self, rows: slice) -> bool:
        """Whether instances of a finished part are not solved."""
        return any(each.unsolved for each in self.found[rows.start, rows.stop].values())

    def add(self, rows: slice, part: dict[str, SolvedSet]) -> None:
        """Keep a finished part: what was found for the instances `rows`, by the name of what has found it."""
        if self.folder is not None:
            arrays: dict[str, Any] = {"names": list(part)}
            for place, each in enumerate(part.values()):
                arrays |= {f"{place}.{field}": value for field, value in each._asdict().items() if value is not None}
            with atomic_write(self._file(rows.start, rows.stop)) as file:
                np.savez(file, **arrays)
        self.found[rows.start, rows.stop] = part

    def _file(self, first: int, end: int) -> Path:
        assert self.folder is not None
        return self.folder / f"{first}-{end}.npz"

    def instances(self) -> Tensor:
        """The finished instances [n] in their order, as indices of the instance set."""
        return torch.tensor([i for first, end in sorted(self.found) for i in range(first, end)], dtype=torch.int64)

    def joined(self) -> dict[str, SolvedSet]:
        """What was found for the finished instances, by the name of what has found solutions for all of them."""
        ordered = [self.found[place] for place in sorted(self.found)]
        return {name: _joined([part[name] for part in ordered]) for name in in_all(ordered)}


def in_all(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names that all of the mappings have; an instance may be none for one of the heuristics."""
    return [name for name in found[0] if all(name in each for each in found)]


def _joined(parts: list[SolvedSet]) -> SolvedSet:
    """A search that is limited by time has found more samples in some parts than in others.

    What a solver has claimed is not known of parts that an earlier version has kept, so it is left out of all.
    """
    if any(part.claims is None for part in parts):
        parts = [part._replace(bounds=None, claims=None) for part in parts]
    longest = max(part.samples.shape[1] for part in parts)
    padded = (nn.functional.pad(part.samples, (0, longest - part.samples.shape[1]), value=math.nan) for part in parts)
    return joined([part._replace(samples=samples) for part, samples in zip(parts, padded, strict=True)])


def _read(path: Path) -> dict[str, SolvedSet] | None:
    """A part that was kept; None if its file is damaged: then the part is computed again."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            names = arrays["names"].tolist()
            return {name: _result(arrays, i) for i, name in enumerate(names)}
    except Exception:  # a damaged archive can fail in any part of zipfile, zlib or numpy
        return None


def _result(arrays: Mapping[str, np.ndarray], place: int) -> SolvedSet:
    names = ((field, f"{place}.{field}") for field in SolvedSet._fields)
    values = {field: arrays[name] for field, name in names if name in arrays}  # earlier versions had fewer counts
    plain: dict[str, Any] = {
        key: x.tolist() if not x.ndim or x.dtype.kind == "U" else torch.from_numpy(x) for key, x in values.items()
    }
    return SolvedSet(**plain)
