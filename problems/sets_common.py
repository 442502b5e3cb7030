"""What the evaluation sets of several problems have in common: sources by name or file, checks, shipped costs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.interfaces import Benchmark
from problems.formats.npz import kinds_of
from problems.formats.sections import LARGEST_COORDINATE
from problems.formats.tsplib import tour_lengths

DATA = Path(__file__).parent / "data"


class Reference(NamedTuple):
    """What is known of the best solution of an instance."""

    cost: float = float("nan")  # NaN: nothing
    kind: str = ""
    actions: Tensor | None = None  # [T], None where only the cost is known


class Library(NamedTuple):
    """A format of benchmark files, one instance in each."""

    name: str
    suffix: str
    read: Callable[[Path], Any]  # the instance in a file, a NamedTuple with its `coords`
    reference: Callable[[Path, Any], Reference]
    benchmark: Callable[[list, np.ndarray, list[str]], Benchmark]  # of n instances of one size, their costs and kinds


def load(
    source: str,
    limit: int | None,
    named: dict[str, Callable[[int | None], Benchmark]],
    load_npz: Callable[[Path, int | None], Benchmark],
    library: Library,
) -> list[Benchmark]:
    """The instances of `source`, one Benchmark per size in ascending order of size.

    Arguments:
        source: a key of `named`, a `.npz` file, a file of the library (any other file) or a folder of them.
        limit: how many instances to take from the front (of a folder: the first files by name), None for all.
    """
    if source in named:
        return [named[source](limit)]
    path = Path(source).expanduser()
    if path.is_dir():
        return _load_files(sorted(path.glob(f"*{library.suffix}")), limit, f"{path}/*{library.suffix}", library)
    if path.suffix == ".npz" and path.is_file():
        return [load_npz(path, limit)]
    if path.is_file():
        return _load_files([path], limit, source, library)
    kinds = f"a .npz file, a {library.name} file or a folder of {library.suffix} files"
    raise ValueError(f"unknown source {source!r}: neither one of {', '.join(named)} nor the path of {kinds}")


def _load_files(paths: list[Path], limit: int | None, source: str, library: Library) -> list[Benchmark]:
    """One Benchmark per size from the first `limit` files."""
    if not paths:
        raise ValueError(f"there are no files {source}")
    by_size: dict[int, list[tuple[Any, Reference]]] = {}
    for path in paths[: taken(limit, len(paths), source)]:
        instance = library.read(path)
        by_size.setdefault(len(instance.coords), []).append((instance, library.reference(path, instance)))
    benchmarks = []
    for _, group in sorted(by_size.items()):
        instances, references = zip(*group, strict=True)
        costs, kinds, actions = zip(*references, strict=True)
        benchmark = library.benchmark(list(instances), np.array(costs), list(kinds))
        known = {place: each for place, each in enumerate(actions) if each is not None}
        benchmarks.append(benchmark._replace(solutions=known))
    return benchmarks


def taken(limit: int | None, available: int, source: str, hint: str = "; num_instances=null takes all") -> int:
    """How many instances to take. Raises ValueError, with the hint, if there are not as many."""
    if limit is not None and not 1 <= limit <= available:
        allowed = f"between 1 and {available} can be taken, not {limit}"
        raise ValueError(f"{source} has {available} instances, {allowed}{hint}")
    return available if limit is None else limit


def numbered(name: str, n: int) -> list[str]:
    """Names of the instances of a set without names."""
    return [f"{name}/{i}" for i in range(n)]


def verify(name: str, checksum: str, *arrays: np.ndarray) -> None:
    """Refuses generated arrays unless the first 16 hex digits of their sha256, joined by blanks, are `checksum`."""
    found = " ".join(hashlib.sha256(array.tobytes()).hexdigest()[:16] for array in arrays)
    if found != checksum:
        raise ValueError(f"{name} must have the checksum {checksum}, this numpy {np.__version__} generated {found}")


def shipped_costs(file: str, n: int, kind: str | None = None) -> tuple[np.ndarray, list[str]]:
    """The first n costs [n] of a file in `problems/data` and their kinds; NaN and empty if it is not there or shorter.

    Arguments:
        kind: how good they are, None: what the file says in `reference`.
    """
    if (DATA / file).is_file():
        with np.load(DATA / file, allow_pickle=False) as arrays:
            costs = arrays["cost"][:n]
            if len(costs) == n:
                return costs, kinds_of(costs, str(arrays["reference"]) if kind is None else kind)
    return np.full(n, np.nan), [""] * n


def checked_coordinates(path: Path, coords: np.ndarray, fewest: int, nodes: str) -> np.ndarray:
    """The coordinates [n, nodes, 2] in a `.npz` as float64, refused if there are too few nodes or they lie too far."""
    shaped = coords.ndim == 3 and coords.shape[0] >= 1 and coords.shape[1] >= fewest and coords.shape[2] == 2
    if not shaped or coords.dtype.kind not in "fiu":
        shape = f"{coords.dtype} {list(coords.shape)}"
        rule = f"coords must be numbers [n, {nodes}, 2] with n >= 1 and {nodes} >= {fewest}"
        raise ValueError(f"{path}: {rule}, got {shape}")
    coords = coords.astype(np.float64)
    inside = np.abs(coords) <= LARGEST_COORDINATE  # not of NaN
    if not inside.all():
        row = int((~inside).any(axis=(1, 2)).argmax())
        raise ValueError(f"{path}: coordinates must lie within +-{LARGEST_COORDINATE:g}, instance {row} does not")
    return coords


def walk_lengths(coords: Tensor, metrics: list[str], index: Tensor, walks: Tensor) -> Tensor:
    """Lengths [m] float64 of closed walks [m, L] on the instances `index` [m] of coords [n, N, 2], each in its metric.

    All on the CPU, which has float64.
    """
    lengths = torch.empty(len(index), dtype=torch.float64)
    for metric in set(metrics):
        rows = torch.tensor([metrics[i] == metric for i in index.tolist()], dtype=torch.bool)
        lengths[rows] = tour_lengths(coords[index[rows]], walks[rows], metric)
    return lengths
