"""What the evaluation sets of all problems have in common: sources by name or file, checks, shipped costs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gumbeldore.interfaces import Benchmark, WrongProblemError
from problems.files import Library, load_files
from problems.formats.npz import kinds_of
from problems.formats.sections import LARGEST_COORDINATE
from problems.formats.tsplib import tour_lengths

DATA = Path(__file__).parent / "data"
SETS = ("kool", "gd", "taillard", "l2d")  # how names of standard sets begin


def load(
    source: str,
    limit: int | None,
    named: dict[str, Callable[[int | None], list[Benchmark]]],
    load_npz: Callable[[Path, int | None], Benchmark],
    library: Library,
    distances: str | None = None,
) -> list[Benchmark]:
    """The instances of `source`, one Benchmark per size in ascending order of size.

    Arguments:
        source: a key of `named`, a `.npz` file, a file of the library (any other file) or a folder of them.
        limit: how many instances to take from the front (of a folder: of the first files by name), None for all.
        distances: as in `problems.formats.tsplib.metric_of`
    """
    path = Path(source).expanduser()
    if source not in named and (path.is_dir() or path.is_file() and path.suffix.lower() != ".npz"):
        return load_files(path, limit, library)
    if distances == "rounded":
        raise ValueError(f"problem.distances=rounded is for {library.name} files; {source} has exact distances")
    if source in named:
        return named[source](limit)
    if path.is_file():
        return [load_npz(path, limit)]
    suffixes = ", ".join(suffix or "(none)" for suffix in library.suffixes)
    kinds = f"a .npz file, a {library.name} file or a folder of such files ({suffixes})"
    kind = WrongProblemError if source.partition("/")[0] in SETS else ValueError
    raise kind(f"unknown source {source!r}: neither one of {', '.join(named)} nor the path of {kinds}")


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


def checked_coordinates(where: str, coords: np.ndarray, fewest: int, nodes: str) -> np.ndarray:
    """The coordinates [n, nodes, 2] of a user as float64, refused if there are too few nodes or they lie too far."""
    shaped = coords.ndim == 3 and coords.shape[0] >= 1 and coords.shape[1] >= fewest and coords.shape[2] == 2
    if not shaped or coords.dtype.kind not in "fiu":
        shape = f"{coords.dtype} {list(coords.shape)}"
        rule = f"coords must be numbers [n, {nodes}, 2] with n >= 1 and {nodes} >= {fewest}"
        raise ValueError(f"{where}: {rule}, got {shape}")
    coords = coords.astype(np.float64)
    inside = np.abs(coords) <= LARGEST_COORDINATE  # not of NaN
    if not inside.all():
        row = int((~inside).any(axis=(1, 2)).argmax())
        raise ValueError(f"{where}: coordinates must lie within +-{LARGEST_COORDINATE:g}, instance {row} does not")
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
