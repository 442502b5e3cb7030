"""The nodes of instances in arrays of the user: where they lie, how far they are from each other, or both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from problems.formats.maps import classical_scaling
from problems.formats.matrices import LARGEST_DISTANCE, MOST_NODES, outside
from problems.formats.sections import LARGEST_COORDINATE
from problems.formats.tsplib import UNROUNDED, Metric


class Nodes(NamedTuple):
    """Where the nodes of n instances lie, or how far they are from each other, or both: as the user says, checked."""

    coords: np.ndarray | None  # [n, N, 2] float64
    distances: np.ndarray | None  # [n, N, N] from row to column; the diagonal is ignored

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], where: str, fewest: int, count: str) -> Nodes:
        """The arrays `coords` and `distances`. Raises ValueError for wrong shapes, too few nodes and other values.

        Arguments:
            where: the arrays come from; the message begins with it
            fewest: so many nodes an instance must have
            count: how messages write the number of nodes, "N" or "N+1"
        """
        coords, distances = arrays.get("coords"), arrays.get("distances")
        if coords is not None:
            coords = _checked_coordinates(where, coords, fewest, count)
        if distances is not None:
            _check_distances(where, distances, fewest, count)
            if coords is not None and coords.shape[:2] != distances.shape[:2]:
                shapes = f"{list(coords.shape)} and {list(distances.shape)}"
                raise ValueError(f"{where}: coords and distances must have the same n and {count}, got {shapes}")
        return cls(coords, distances)

    @property
    def shape(self) -> tuple[int, ...]:
        """n and N."""
        known = self.coords if self.distances is None else self.distances
        return known.shape[:2]

    def first(self, n: int) -> tuple[np.ndarray, list[Metric]]:
        """Coordinates [n, N, 2] of the first n instances, those of a map where there are none, and their metrics."""
        if self.distances is None:
            return self.coords[:n], [UNROUNDED] * n
        matrices = [torch.from_numpy(each.astype(np.float64)) for each in self.distances[:n]]
        if self.coords is not None:
            return self.coords[:n], matrices
        return np.stack([classical_scaling(matrix).numpy() for matrix in matrices]), matrices


def _checked_coordinates(where: str, coords: np.ndarray, fewest: int, nodes: str) -> np.ndarray:
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


def _check_distances(where: str, distances: np.ndarray, fewest: int, nodes: str) -> None:
    """Refuses `distances` of the wrong shape, of too few or too many nodes, and values that are none."""
    shaped = distances.ndim == 3 and distances.shape[0] >= 1 and fewest <= distances.shape[1] == distances.shape[2]
    if not shaped or distances.dtype.kind not in "fiu" or distances.shape[1] > MOST_NODES:
        shape = f"{distances.dtype} {list(distances.shape)}"
        rule = f"distances must be numbers [n, {nodes}, {nodes}] with n >= 1 and {nodes} within {fewest}..{MOST_NODES}"
        raise ValueError(f"{where}: {rule}, got {shape}")
    for row, matrix in enumerate(distances):
        wrong = outside(matrix)
        np.fill_diagonal(wrong, False)
        if wrong.any():
            a, b = np.argwhere(wrong)[0]
            what = f"that of instance {row} from node {a} to node {b} is {matrix[a, b]:g}"
            raise ValueError(f"{where}: distances must lie within 0..{LARGEST_DISTANCE:g}, {what}")
