"""What `solve` returns for an instance."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gumbeldore.evaluation.loading import LoadedPolicy
from gumbeldore.evaluation.tables import percentage
from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import size_name
from gumbeldore.runtime.files import atomic_write, in_home

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result:
    """The best solution that was found for one instance.

    The solution itself is an attribute in the problem's own words: `tour` (TSP: nodes from 0, in the order of the
    input), `routes` (CVRP: lists of customers from 1), `schedule` (JSSP: for each job its operations, with `machine`,
    `start` and `end`).

    Attributes:
        name: of the instance
        cost: to be minimised, in the instance's own units and with its rounding
        reference, kind: the best cost known and how good it is, else a lower bound; None and "" where nothing is known
        gap: cost / reference - 1, above 0 where the cost is higher also if costs are negative; or None, also where the
            reference is 0 and the cost is not
        num_solutions: that were sampled
        seconds: that the search took; of instances that were searched together, the mean
        actions: [T] the decisions of the policy
        policy: the path of the checkpoint it was loaded from; empty where there is none
    """

    def __init__(
        self,
        loaded: LoadedPolicy,
        instance_set: InstanceSet,
        actions: Tensor,
        cost: float,
        num_solutions: int,
        seconds: float,
    ):
        problem, self.policy = loaded.problem, str(loaded.path) if loaded.path.name else ""
        (self.name,), (self.kind,) = instance_set.names, instance_set.kinds
        known = not instance_set.references.isnan().any()
        self.reference = instance_set.references.item() if known else None
        self.cost, self.actions = cost, actions
        gap = instance_set.gaps(torch.tensor([cost], dtype=torch.float64)).item()
        self.gap = None if math.isnan(gap) else gap
        self.num_solutions, self.seconds = num_solutions, seconds
        self._problem, self._instances, self._originals = problem, instance_set.instances, instance_set.originals
        self._solution = problem.reports.named_solution(instance_set.originals, 0, actions)

    def __getattr__(self, name: str) -> Any:
        """The solution, by the problem's word for it."""
        solution = self.__dict__.get("_solution", {})  # empty while the object is being made or copied
        if name in solution:
            return solution[name]
        words = ", ".join(f".{word}" for word in solution)
        raise AttributeError(f"a result has no {name}; the solution is {words or 'not there'}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._solution]

    def __repr__(self) -> str:
        known = "" if self.reference is None else f", {self.kind} {self.reference:.10g}"
        gap = known if self.gap is None else f", gap {percentage(self.gap)} to {self.kind}"
        size = size_name(self._problem, self._instances)
        return f"<{self.name} ({self._problem.name}, {size}): cost {self.cost:.10g}{gap}>"

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the solution: as the problem's standard file (`.tour`, `.sol`, `.csv`), or as `.json`.

        Raises ValueError for another suffix, and FileExistsError for a file that is there unless `overwrite` is True.
        """
        path = in_home(path)
        file = self._problem.reports.solution_file(self._originals, 0, self.name, self.actions, self.cost)
        texts = dict([file] if file else [])
        texts[".json"] = self._json()
        if path.suffix not in texts:
            raise ValueError(f"{path}: a solution of problem {self._problem.name} is saved as {' or '.join(texts)}")
        if path.exists() and not overwrite:
            raise FileExistsError(f"{path} is there already; overwrite=True replaces it")
        with atomic_write(path) as out:
            out.write(texts[path.suffix].encode())

    def plot(self) -> Figure:
        """A figure of the solution; `result.plot().savefig("my.png")` writes it."""
        title = f"{self.name}: {self.cost:.10g}"
        figure = self._problem.reports.render(self._originals, self.actions[None], [title])
        if figure is None:
            raise ValueError(f"problem {self._problem.name} has no pictures")
        return figure

    def _repr_png_(self) -> bytes | None:
        """The picture that a notebook shows; None where the problem has none."""
        try:
            figure = self.plot()
        except ValueError:
            return None
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        return picture.getvalue()

    def _json(self) -> str:
        known = {"reference": self.reference, "kind": self.kind, "gap": self.gap}
        return json.dumps({"name": self.name, "cost": self.cost, **known, **self._solution}, indent=2) + "\n"
