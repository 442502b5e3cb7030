"""Arrays of the user, in an `.npz` or in memory: which there must and may be, and the costs among them."""

from __future__ import annotations

import math
from collections.abc import Set
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gumbeldore.instance_set import WrongProblemError
from gumbeldore.runtime.arrays import check_sizes

NODES = {"coords", "distances"}  # where nodes lie, or how far they are from each other
REFERENCES = {"cost", "reference"}
LARGEST_NUMBER = 2**62
MOST_NUMBERS = 2**29  # of an array: 4 GiB


class Arrays(NamedTuple):
    """The arrays of instances of one problem."""

    required: set[str]
    optional: set[str]
    either: Set[str] = frozenset()  # one of these is required, too

    def hold(self, names: set[str]) -> bool:
        """Whether arrays of these names are instances of the problem."""
        complete = self.required <= names and (not self.either or bool(self.either & names))
        return complete and names <= self.required | self.either | self.optional

    def check(self, names: set[str], where: str) -> None:
        """Raises WrongProblemError that begins with `where` unless arrays of these names are the problem's."""
        if self.hold(names):
            return
        required = [*sorted(self.required), *([" or ".join(sorted(self.either))] if self.either else [])]
        rule = f"{where} must hold {_listed(required)} and may hold {_listed(sorted(self.optional))}"
        raise WrongProblemError(f"{rule}, got {sorted(names)}")


def read_npz(
    path: Path, required: set[str], optional: set[str], either: Set[str] = frozenset()
) -> dict[str, np.ndarray]:
    """The arrays of a file that holds what `Arrays` of these says and nothing else, or solved instances (experts).

    Raises ValueError that names the file for a damaged archive, pickled objects, missing or unknown arrays, and arrays
    of more than MOST_NUMBERS; neither unknown nor large ones take memory.
    """
    expected = Arrays(required, optional, either)
    try:
        shapes = check_sizes(path)
        large = next((name for name, shape in shapes.items() if math.prod(shape) > MOST_NUMBERS), None)
        with np.load(path, allow_pickle=False) as file:
            stored = _by_name(file.files)
            names = set(stored)
            fits = large is None and expected.hold(names)
            arrays = {name: file[stored[name]] for name in names if fits}
    except Exception as error:  # a damaged archive can fail in any part of zipfile, zlib or numpy
        raise ValueError(f"{path} is not a readable .npz file without pickled objects: {error}") from error
    expected.check(names, str(path))
    if large:
        raise ValueError(f"{path}: {large} {list(shapes[large])} has more than {MOST_NUMBERS} numbers")
    return arrays


def _by_name(stored: list[str]) -> dict[str, str]:
    """The arrays in a file by what they are; those of experts have other names there (`read_shard`)."""
    if not {"actions", "costs"} <= set(stored):
        return {name: name for name in stored}
    return {name.removeprefix("instance."): name for name in stored if name not in ("actions", "costs")} | {
        "cost": "costs"
    }


def costs_of(where: str, arrays: dict[str, np.ndarray], n: int, lowest: float = 0.0) -> tuple[np.ndarray, list[str]]:
    """Reference costs [n] float64 from the optional array `cost` (NaN: unknown), and the kind of each.

    The kind is the optional `reference`, one string or n, by default the name of the file; it is empty where the cost
    is unknown. No cost may be below `lowest`: -math.inf where something is to be maximised.
    """
    costs = arrays.get("cost", np.full(n, np.nan))
    numbers = costs.shape == (n,) and costs.dtype.kind in "fiu"
    wrong = (np.isinf(costs) | (costs < lowest)).nonzero()[0] if numbers else []
    if not numbers or len(wrong):
        got = f"{costs[wrong[0]]} at {wrong[0]}" if numbers else f"{costs.dtype} {list(costs.shape)}"
        rule = f"{n} numbers >= {lowest:g}" if math.isfinite(lowest) else f"{n} finite numbers"
        raise ValueError(f"{where}: cost must be {rule}, or NaN or 0 where unknown, got {got}")
    kind = arrays.get("reference", np.array(f"cost of {Path(where).name}"))
    if kind.dtype.kind != "U" or kind.shape not in ((), (n,)):
        shape = f"{kind.dtype} {list(kind.shape)}"
        raise ValueError(f"{where}: reference must be one string or one per instance, got {shape}")
    costs = costs.astype(np.float64)
    return costs, np.where(np.isnan(costs), "", kind).tolist()


def kinds_of(costs: np.ndarray, kind: str) -> list[str]:
    """`kind` for each known reference cost [n], empty where it is NaN."""
    return ["" if np.isnan(cost) else kind for cost in costs]


def whole(
    array: np.ndarray, shape: tuple[int, ...], where: str, lacking: int | None = None, meant: str = ""
) -> np.ndarray:
    """An array as int64. Raises ValueError that begins with `where` unless it has this shape and whole numbers.

    Arguments:
        lacking: what stands for NaN; None: there must be none
        meant: what the numbers are, for messages
    """
    meant = meant and f" ({meant})"
    if array.dtype.kind not in "iuf" or array.shape != shape:
        raise ValueError(f"{where} must be whole numbers {list(shape)}{meant}, got {array.dtype} {list(array.shape)}")
    unknown = np.isnan(array) if lacking is not None and array.dtype.kind == "f" else np.zeros(shape, dtype=bool)
    known = np.where(unknown, 0, array)
    wrong = ~(np.abs(known.astype(np.float64)) < LARGEST_NUMBER) | (known != np.rint(known))
    if wrong.any():
        place = tuple(int(each[0]) for each in wrong.nonzero())
        rule = f"must be whole numbers below {LARGEST_NUMBER:g}{meant}"
        raise ValueError(f"{where} {rule}, got {array[place]} at {list(place)}")
    return np.where(unknown, 0 if lacking is None else lacking, known.astype(np.int64))


def _listed(names: list[str]) -> str:
    """The names as a text: `a, b and c`."""
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last
