"""Arrays of the user, in an `.npz` or in memory: which there must and may be, and the costs among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gumbeldore.interfaces import WrongProblemError
from gumbeldore.runtime.arrays import check_sizes

OF_A_PROBLEM = [{"coords"}, {"coords", "demands", "capacity"}, {"times", "machines"}]  # the arrays of each


def read_npz(path: Path, required: set[str], optional: set[str]) -> dict[str, np.ndarray]:
    """The arrays of a file that holds all of `required`, any of `optional` and no others.

    Raises ValueError that names the file for a damaged archive, pickled objects, and missing or unknown arrays.
    """
    try:
        check_sizes(path)
        with np.load(path, allow_pickle=False) as file:
            names = set(file.files)
            fits = required <= names <= required | optional
            arrays = {name: file[name] for name in names if fits}  # unknown arrays take no memory
    except Exception as error:  # a damaged archive can fail in any part of zipfile, zlib or numpy
        raise ValueError(f"{path} is not a readable .npz file without pickled objects: {error}") from error
    check_names(names, str(path), required, optional)
    return arrays


def check_names(names: set[str], where: str, required: set[str], optional: set[str]) -> None:
    """Raises ValueError unless there are all of the `required` arrays, any of the `optional` ones and no others.

    Arguments:
        where: the arrays come from; the message begins with it
    """
    if not required <= names <= required | optional:
        kind = WrongProblemError if names - optional in OF_A_PROBLEM else ValueError
        raise kind(f"{where} must hold {_listed(required)} and may hold {_listed(optional)}, got {sorted(names)}")


def costs_of(where: str, arrays: dict[str, np.ndarray], n: int) -> tuple[np.ndarray, list[str]]:
    """Reference costs [n] float64 from the optional array `cost` (NaN: unknown), and the kind of each.

    The kind is the optional string `reference`, by default the name of the file; it is empty where the cost is unknown.
    """
    costs = arrays.get("cost", np.full(n, np.nan))
    if costs.shape != (n,) or costs.dtype.kind not in "fiu" or np.isinf(costs).any() or (costs < 0).any():
        shape = f"{costs.dtype} {list(costs.shape)}"
        raise ValueError(f"{where}: cost must be {n} numbers >= 0, or NaN or 0 where unknown, got {shape}")
    kind = arrays.get("reference", np.array(f"cost of {Path(where).name}"))
    if kind.dtype.kind != "U" or kind.ndim != 0:
        raise ValueError(f"{where}: reference must be one string, got {kind.dtype} {list(kind.shape)}")
    costs = costs.astype(np.float64)
    return costs, kinds_of(costs, str(kind))


def kinds_of(costs: np.ndarray, kind: str) -> list[str]:
    """`kind` for each known reference cost [n], empty where it is NaN."""
    return ["" if np.isnan(cost) else kind for cost in costs]


def _listed(names: set[str]) -> str:
    """The names as a text: `a, b and c`."""
    *head, last = sorted(names)
    return f"{', '.join(head)} and {last}" if head else last
