"""Where the instances of a problem come from, beside random ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gumbeldore.batches import batch_size, take
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces.dynamics import Dynamics
from gumbeldore.seeding import generator


class InstanceSource(Dynamics):
    """Instances in files, in named sets and in arrays."""

    def check(self, instance: Any) -> None:
        """Raises ValueError unless all instances of a file of experts are well-formed. Default: no check."""

    def scaled(self, instance: Any) -> Any:
        """The instances of a file of experts in the units that the network learns from, with the same good solutions.

        Default: as they are.
        """
        return instance

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """The evaluation sets that `source` names, an InstanceSet for each size. Default: ValueError, there are none.

        Arguments:
            source: the name of a set, or the path of a file or a folder
            limit: how many instances to take from the front, None for all

        Raises ValueError for a source that is not known or a file that is not well-formed (WrongProblemError if it
        seems to be one of another problem).
        """
        raise ValueError(f"{type(self).__name__} has no evaluation sets: it does not define load")

    def from_arrays(self, arrays: Mapping[str, Any], where: str) -> InstanceSet:
        """Instances of one size in NumPy arrays [n, ...], by name. Default: ValueError, there are no names.

        Arguments:
            where: what the arrays come from; messages begin with it

        Raises ValueError for arrays that are not well-formed: WrongProblemError if they seem to be of another problem,
        MixedSizesError if instances of several sizes have arrays of the same shapes.
        """
        raise ValueError(f"{type(self).__name__} takes no arrays: it does not define from_arrays")

    # Of one instance's arrays, by name; arrays with one dimension more are of several. `from_arrays` takes these alone.
    dimensions: Mapping[str, int] = {}

    # What is minimised, where a problem can minimise different things; a shipped policy is chosen for its objective.
    objective: str = ""

    def scale(self, instance: Any) -> dict[str, Tensor]:
        """Numbers [n] above 0 that tell how like each other instances are, by name. Default: the decisions.

        A policy is chosen for instances by these numbers.
        """
        return {"decisions": torch.full((batch_size(instance),), float(self.horizon(instance)))}

    def validation(self, n: int, seed: int) -> list[InstanceSet]:
        """The fixed validation set of training, n instances in all, an InstanceSet for each size.

        Default: random instances without references, which only the run's seed decides.
        """
        return [without_references(self, self.generate(n, generator(seed, "validation")), "validation")]


def without_references(problem: Dynamics, instances: Any, name: str) -> InstanceSet:
    """Instances [n, ...] of a problem as an InstanceSet. Their true cost is the problem's own; references are missing.

    Arguments:
        name: of the set; an instance is called `name`/0, `name`/1, ...
    """

    def true_cost(index: Tensor, actions: Tensor) -> Tensor:
        return problem.cost(take(instances, index), actions).double()

    n = batch_size(instances)
    unknown = torch.full((n,), math.nan, dtype=torch.float64)
    return InstanceSet([f"{name}/{i}" for i in range(n)], instances, instances, true_cost, unknown, [""] * n)
