"""Evaluation sets of job shops, flexible ones included: from arrays, from files, and random ones."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from gumbeldore.instance_set import InstanceSet, MixedSizesError
from problems.common.files import Reference, taken
from problems.common.sets import DATA, Sets, numbered
from problems.formats.npz import REFERENCES, costs_of
from problems.jssp.best_known import best_known
from problems.jssp.instances import DUE, for_network
from problems.jssp.objectives import MAKESPAN, TARDINESS, check_objective, with_due_dates
from problems.jssp.originals import for_objective

MEANT = {  # arrays of the user, in messages
    "release": "one for each job",
    "machine_release": "one for each machine",
    "due": "one for each job; a weight of 0 stands for no due date",
    "weight": "one for each job",
}
UNKNOWN = (float("nan"), "")  # a reference, and its kind
IGNORED = "due dates have no effect on objective={}; problem.objective=weighted_tardiness counts them"


class ShopSets(Sets):
    """The evaluation sets of a kind of job shop.

    Arguments:
        objective: one of OBJECTIVES; published references are makespans
    """

    original: ClassVar[type]  # the instances in their own units
    problem: ClassVar[str]  # in the names of files with references
    validation_sizes: ClassVar[list[tuple[int, int]]]  # jobs and machines of the random sets that have names
    validation_count: ClassVar[int]  # instances of each size

    def __init__(self, objective: str = MAKESPAN):
        self.objective = check_objective(objective)

    @abstractmethod
    def whole_numbers(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """The arrays as int64. Raises ValueError unless they are whole numbers of shapes that fit."""

    @abstractmethod
    def draw(self, number: int, jobs: int, machines: int, generator: torch.Generator) -> Any:
        """A random instance of a validation set, given its number in the set."""

    @abstractmethod
    def fingerprint(self, arrays: Mapping[str, np.ndarray]) -> str:
        """16 hex digits that stand for all instances in the arrays: no name is needed, and none can mislead."""

    def named(self) -> dict[str, Callable[[int | None], list[InstanceSet]]]:
        """Standard sets by name: functions of the limit. None takes all instances, of random sets the first 100."""
        sizes = {f"validation/{jobs}x{machines}": (jobs, machines) for jobs, machines in self.validation_sizes}
        return {name: partial(self._random_set, *size) for name, size in sizes.items()}

    def from_arrays(self, arrays: dict[str, np.ndarray], where: str, limit: int | None = None) -> InstanceSet:
        self.arrays.check(set(arrays), where)
        given = self.whole_numbers({name: array for name, array in arrays.items() if name not in REFERENCES}, where)
        total = len(given["times"])
        n = taken(limit, total, where)
        costs, kinds = costs_of(where, arrays, total)
        original = self.original.of({name: array[:n] for name, array in given.items()})
        original.check(where)
        names = numbered(Path(where).stem, n)
        for i, shop in enumerate(original.shops(names)):
            cost, kind = self.best_known(shop)
            if kind and not costs[i] > 0:  # NaN or 0
                costs[i], kinds[i] = cost, kind
        try:
            return self.instance_set(names, original, costs[:n], kinds[:n])
        except MixedSizesError as error:
            raise MixedSizesError(f"{where}: {error}") from None

    def validation(self, jobs: int, machines: int, n: int) -> InstanceSet:
        """The first n random instances of one size, with the references that the project ships."""
        name = f"validation/{jobs}x{machines}"
        taken(n, self.validation_count, name, "")
        suffix = "" if self.objective == MAKESPAN else f"_{self.objective}"
        shipped, kinds, expected = costs_with_fingerprint(f"{self.problem}_{jobs}x{machines}{suffix}_validation.npz")
        generator, due_generator = (torch.Generator().manual_seed(seed) for seed in (4321, 1234))
        # Drawn one by one, so that the first ones do not depend on how many follow.
        drawn = [self.draw(i, jobs, machines, generator) for i in range(max(n, len(shipped)))]
        if self.objective == TARDINESS:
            drawn = [with_due_dates(each, due_generator) for each in drawn]
        fields = [each.stored() for each in drawn]
        arrays = {key: torch.cat([each[key] for each in fields]).long().numpy() for key in fields[0]}
        known = {key: array[: len(shipped)] for key, array in arrays.items()}
        if expected and self.fingerprint_with_due(known) != expected:
            shipped, kinds = np.empty(0), []  # another release of torch draws others
        original = self.original.of({key: array[:n] for key, array in arrays.items()})
        return self.instance_set(numbered(name, n), original, *first_of(n, shipped, kinds))

    def instance_set(self, names: list[str], original: Any, costs: np.ndarray, kinds: list[str]) -> InstanceSet:
        """An InstanceSet of n instances with a reference cost (or NaN) and its kind each."""
        unused = self.objective != TARDINESS and has_due_dates(original)
        original = for_objective(original, self.objective, names[0])
        shop = original.to_schedule()
        return InstanceSet(
            names=names,
            instances=for_network(shop),
            originals=original,
            true_cost=original.true_cost(self.objective, shop),
            references=torch.tensor(costs, dtype=torch.float64),
            kinds=kinds,
            lower_bounds=original.lower_bounds(shop).double() if self.objective == MAKESPAN else None,
            pooled=self.objective == TARDINESS,
            warnings=[*([IGNORED.format(self.objective)] if unused else []), *original.warnings_of(names)],
        )

    def of_files(self, shops: list, costs: np.ndarray, kinds: list[str]) -> InstanceSet:
        return self.instance_set([shop.name for shop in shops], self.original.of(*stacked(shops)), costs, kinds)

    def best_known(self, shop: Any) -> tuple[float, str]:
        """The reference of an instance of a file, and its kind; UNKNOWN if there is none."""
        published = self.objective == MAKESPAN and not shop.is_changed
        return best_known(self.problem).get(self.fingerprint(shop.arrays()), UNKNOWN) if published else UNKNOWN

    def reference(self, path: Path, shop: Any) -> Reference:
        return Reference(*self.best_known(shop))

    def fingerprint_with_due(self, arrays: Mapping[str, np.ndarray]) -> str:
        """Hex digits that stand for all instances, for the weighted tardiness with their due dates and weights."""
        digits = self.fingerprint(arrays)
        if self.objective != TARDINESS:
            return digits
        due = b"".join(np.ascontiguousarray(arrays[name], dtype="<i8").tobytes() for name in DUE)
        return hashlib.sha256(digits.encode() + due).hexdigest()[:16]

    def _random_set(self, jobs: int, machines: int, limit: int | None) -> list[InstanceSet]:
        return [self.validation(jobs, machines, 100 if limit is None else limit)]


def has_due_dates(original: Any) -> bool:
    """Whether some instances have due dates, other than those that stand for flow times (`with_flow_time`)."""
    flow = (original.weight == 1) & (original.due == original.release)
    return bool((original.weight > 0).any() and not flow.all())


def stacked(shops: list) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arrays of instances of one size together, and the numbers of their first machines."""
    arrays = [shop.arrays() for shop in shops]
    together = {name: np.stack([each[name] for each in arrays]) for name in arrays[0]}
    return together, np.array([shop.first for shop in shops])


def costs_with_fingerprint(file: str) -> tuple[np.ndarray, list[str], str]:
    """Costs [m] in a file of the project, which need not be there; their m kinds, and the instances' fingerprint."""
    if not (DATA / file).is_file():
        return np.empty(0), [], ""
    with np.load(DATA / file, allow_pickle=False) as arrays:
        costs = arrays["cost"]
        kinds = arrays["kind"].tolist() if "kind" in arrays else ["optimal (CP-SAT)"] * len(costs)
        return costs, kinds, str(arrays["fingerprint"])


def first_of(n: int, costs: np.ndarray, kinds: list[str]) -> tuple[np.ndarray, list[str]]:
    """The first n costs and kinds; NaN and "" where there are fewer."""
    missing = max(0, n - len(costs))
    return np.append(costs[:n], np.full(missing, np.nan)), [*kinds[:n], *[""] * missing]
