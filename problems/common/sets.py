"""What the evaluation sets of all problems have in common: sources by name or file, checks, shipped costs."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from gumbeldore.instance_set import InstanceSet, WrongProblemError
from problems.common.files import Library, load_files
from problems.common.fingerprint import fingerprint
from problems.formats.npz import Arrays, kinds_of, read_npz

DATA = Path(__file__).parents[1] / "data"


class Sets(Library):
    """The evaluation sets of a problem: standard ones by their names, `.npz` files, files of a library."""

    arrays: ClassVar[Arrays]  # of an `.npz`

    @abstractmethod
    def named(self) -> dict[str, Callable[[int | None], list[InstanceSet]]]:
        """Standard sets by name: functions of the limit."""

    @abstractmethod
    def from_arrays(self, arrays: dict[str, np.ndarray], where: str, limit: int | None = None) -> InstanceSet:
        """Instances from the arrays of an `.npz` (docs/data.md), perhaps with `cost` [n] and `reference` as `costs_of`.

        Arguments:
            where: what the arrays come from, e.g. a path: error messages begin with it, instances are called after it
            limit: how many instances to take from the front, None for all

        Raises ValueError for arrays that are not well-formed.
        """

    def check_unrounded(self, source: str) -> None:
        """Raises ValueError if rounded distances are asked for, which a standard set or an `.npz` does not have."""

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """The instances of `source`, one InstanceSet per size in ascending order of size.

        Arguments:
            source: a `.npz` file, a file of the library (any other file), a folder of them, or the name of a standard
                set; what is called like a set in the working directory comes before it, with a warning, unless it is an
                empty folder
            limit: how many instances to take from the front (of a folder: of the first files by name), None for all
        """
        named = self.named()
        path = Path(os.path.expanduser(source))  # `~name` of no user stays as it is
        is_set = source in named  # ./taillard is a path
        files = path.is_dir() or path.exists() and path.suffix.lower() != ".npz"
        if files and not (is_set and path.is_dir() and not any(path.iterdir())):
            first, *others = load_files(path, limit, self)
            if is_set:
                instead = f"{source} is {path.resolve()}, not the standard set of this name"
                first = first._replace(warnings=[f"{instead}; for that, start in another folder", *first.warnings])
            return [first, *others]
        if is_set or path.is_file():
            self.check_unrounded(source)
        if is_set:
            return named[source](limit)
        if path.exists():
            return [self.from_arrays(read_npz(path, *self.arrays), str(path), limit)]
        suffixes = ", ".join(suffix or "(none)" for suffix in self.suffixes)
        kinds = f"a .npz file, a {self.title} file or a folder of such files ({suffixes})"
        raise WrongProblemError(f"unknown source {source!r}: neither one of {', '.join(named)} nor the path of {kinds}")


def numbered(name: str, n: int) -> list[str]:
    """Names of the instances of a set without names."""
    return [f"{name}/{i}" for i in range(n)]


def checksum_of(*arrays: np.ndarray) -> str:
    """The fingerprint of each array, in numbers of its own type, joined by blanks."""
    return " ".join(fingerprint(array, dtype=array.dtype.str) for array in arrays)


def verify(name: str, checksum: str, found: str) -> None:
    """Refuses generated arrays unless their checksum is the one that is expected."""
    if found != checksum:
        raise ValueError(f"{name} must have the checksum {checksum}, this numpy {np.__version__} generated {found}")


def shipped_costs(file: str, n: int, kind: str | None = None) -> tuple[np.ndarray, list[str]]:
    """The first n costs [n] of a file in `problems/data` and their kinds; NaN and empty beyond its end.

    Arguments:
        kind: how good they are, None: what the file says in `reference`.
    """
    if not (DATA / file).is_file():
        return np.full(n, np.nan), [""] * n
    with np.load(DATA / file, allow_pickle=False) as arrays:
        costs = np.pad(arrays["cost"][:n], (0, max(0, n - len(arrays["cost"]))), constant_values=np.nan)
        return costs, kinds_of(costs, str(arrays["reference"]) if kind is None else kind)
