"""What the evaluation sets of the TSP and of the CVRP have in common: distances that the user may choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from problems.common.sets import Sets


class RoutingSets(Sets):
    """The evaluation sets of a problem whose instances have nodes.

    Arguments:
        distances: as in `problems.formats.tsplib.metric_of`
    """

    def __init__(self, distances: str | None = None):
        self.distances = distances

    def size(self, instance: Any) -> int:
        """The number of nodes."""
        return len(instance.coords)

    def check_unrounded(self, source: str) -> None:
        if self.distances == "rounded":
            raise ValueError(f"problem.distances=rounded is for {self.title} files; {source} has exact distances")

    def check_arrays(self, arrays: dict[str, np.ndarray], where: str) -> None:
        """Raises ValueError unless these are arrays of the problem, without distances where others are asked for."""
        self.arrays.check(set(arrays), where)
        if self.distances is not None and "distances" in arrays:
            rule = f"problem.distances={self.distances} is for coordinates, and this file has `distances`"
            raise ValueError(f"{where}: {rule}")
