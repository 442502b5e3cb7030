"""Evaluation sets of the FJSP: random ones made from seeds; `.npz` files; `.fjs` files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.instance_set import InstanceSet, MixedSizesError
from problems.common.files import Library, Reference, taken
from problems.common.sets import load, numbered
from problems.fjsp.best_known import best_known, fingerprint
from problems.fjsp.instances import Instance, assigned, lower_bound, random_instances, shortest
from problems.fjsp.originals import Original, check_original, original_of
from problems.fjsp.originals import from_arrays as original_from
from problems.formats.fjs import FjspInstance, read_fjs
from problems.formats.npz import REFERENCES, Arrays, costs_of, read_npz, whole
from problems.jssp.instances import DUE, for_network
from problems.jssp.objectives import MAKESPAN, TARDINESS, cost_of, with_due_dates
from problems.jssp.originals import for_objective
from problems.jssp.sets import UNKNOWN, add_best_known, shipped_costs, stacked, validation_file

VALIDATION_SETS = {f"validation/{jobs}x{machines}": (jobs, machines) for jobs, machines in [(10, 5), (20, 5), (20, 10)]}
VALIDATION_COUNT = 1_000
ARRAYS = Arrays({"times"}, {"release", "machine_release", "waits", *DUE, *REFERENCES})
SUFFIXES = (".fjs", ".txt")  # of the files taken from a folder


def load_fjsp(source: str, limit: int | None = None, objective: str = MAKESPAN) -> list[InstanceSet]:
    """The instances of `source`, one InstanceSet per size, in ascending order of operations, then jobs.

    Arguments:
        source: one of VALIDATION_SETS, a `.npz` file, a `.fjs` file (any other file) or a folder of files with one of
            SUFFIXES.
        limit: how many instances to take from the front (of a folder: of the first files by name), None for all.
        objective: one of OBJECTIVES; published references are makespans
    """
    named = {name: partial(_validation_set, objective, *size) for name, size in VALIDATION_SETS.items()}
    library = Library(
        "flexible job shop", SUFFIXES, read, size, partial(_reference, objective), partial(_from_files, objective)
    )
    return load(source, limit, named, partial(_load_npz, objective), library)


def validation(jobs: int, machines: int, n: int, objective: str = MAKESPAN) -> InstanceSet:
    """The first n of 1,000 random instances of one size, similar and uniform times in turn; references as shipped."""
    name = f"validation/{jobs}x{machines}"
    taken(n, VALIDATION_COUNT, name, "")
    known, kinds_known, expected = shipped_costs(validation_file("fjsp", jobs, machines, objective))
    generator, due_generator = (torch.Generator().manual_seed(seed) for seed in (4321, 1234))
    # Drawn one by one, so that the first ones do not depend on how many follow.
    count = max(n, len(known))
    drawn = [random_instances(1, jobs, machines, i % 2 == 0, generator) for i in range(count)]
    if objective == TARDINESS:
        drawn = [with_due_dates(each, shortest(each).sum(dim=2), due_generator) for each in drawn]
    original = Original(*map(torch.cat, zip(*map(original_of, drawn), strict=True)))
    costs, kinds = np.full(count, np.nan), [""] * count
    if fingerprint(original.times[: len(known)].numpy()) == expected:  # another release of torch may draw others
        costs[: len(known)], kinds[: len(known)] = known, kinds_known
    return _instance_set(objective, numbered(name, n), take(original, slice(n)), costs[:n], kinds[:n])


def _validation_set(objective: str, jobs: int, machines: int, limit: int | None) -> list[InstanceSet]:
    return [validation(jobs, machines, 100 if limit is None else limit, objective)]


def read(path: Path) -> list[FjspInstance]:
    """The instance in a file. Raises ValueError that names it for what is not well-formed."""
    shops = read_fjs(path)
    check_original(original_from(*stacked(shops)), str(path))
    return shops


def _load_npz(objective: str, path: Path, limit: int | None) -> InstanceSet:
    return from_arrays(read_npz(path, *ARRAYS), str(path), limit, objective)


def from_arrays(
    arrays: dict[str, np.ndarray], where: str, limit: int | None = None, objective: str = MAKESPAN
) -> InstanceSet:
    """Instances from arrays by name, with `cost` [n] and `reference` as in `costs_of`.

    `times` [n, J, O, M], -1 where the machine cannot do the operation or no operation is; if there are any, `release`
    [n, J], `machine_release` [n, M], `waits` [n, J, O], `due` and `weight` [n, J]. `cost` belongs to the objective.

    Arguments:
        where: what the arrays come from, e.g. a path: error messages begin with it, instances are called after it
        limit: how many instances to take from the front, None for all

    Raises ValueError for arrays that are not well-formed.
    """
    ARRAYS.check(set(arrays), where)
    times = arrays["times"]
    if times.ndim != 4 or not times.size:
        raise ValueError(f"{where}: times must be [n, J, O, M], got {list(times.shape)}")
    n, jobs, ops, machines = times.shape
    shapes = {"times": times.shape, "machine_release": (n, machines), "waits": (n, jobs, ops)}
    shapes |= dict.fromkeys(("release", *DUE), (n, jobs))
    rows = slice(taken(limit, n, where))
    given = {name: whole(arrays[name], shapes[name], f"{where}: {name}")[rows] for name in set(shapes) & set(arrays)}
    costs, kinds = costs_of(where, arrays, n)
    original = original_from(given)
    check_original(original, where)
    names = numbered(Path(where).stem, len(original.times))
    if objective == MAKESPAN:
        add_best_known(costs, kinds, map(best_known, _shops(original, names)))
    try:
        return _instance_set(objective, names, original, costs[rows], kinds[rows])
    except MixedSizesError as error:
        raise MixedSizesError(f"{where}: {error}") from None


def _shops(original: Original, names: list[str]) -> list[FjspInstance]:
    """The instances one by one."""
    fields = [field.numpy() for field in original[:-1]]
    return [FjspInstance(name, *(field[i] for field in fields)) for i, name in enumerate(names)]


def size(shop: FjspInstance) -> tuple[int, ...]:
    """Operations, then jobs, machines and most operations of a job."""
    jobs, ops, machines = shop.times.shape
    return int((shop.times >= 0).any(axis=2).sum()), jobs, machines, ops


def _reference(objective: str, path: Path, shop: FjspInstance) -> Reference:
    return Reference(*(best_known(shop) if objective == MAKESPAN else UNKNOWN))


def _from_files(objective: str, shops: list[FjspInstance], costs: np.ndarray, kinds: list[str]) -> InstanceSet:
    return _instance_set(objective, [shop.name for shop in shops], original_from(*stacked(shops)), costs, kinds)


def _instance_set(
    objective: str, names: list[str], original: Original, costs: np.ndarray, kinds: list[str]
) -> InstanceSet:
    """An InstanceSet of n instances with a reference cost (or NaN) and its kind each."""
    original = for_objective(original, objective, names[0])
    shop = original.to_schedule()
    return InstanceSet(
        names=names,
        instances=for_network(shop),
        originals=original,
        true_cost=partial(_true_cost, objective, shop),
        references=torch.tensor(costs, dtype=torch.float64),
        kinds=kinds,
        lower_bounds=lower_bound(shop) if objective == MAKESPAN else None,
        pooled=objective == TARDINESS,
    )


def _true_cost(objective: str, shop: Instance, index: Tensor, actions: Tensor) -> Tensor:
    """Costs [m] of solutions [m, T] of the instances `index` [m], on the CPU, which has float64."""
    return cost_of(objective, *assigned(take(shop, index.cpu()), actions.cpu()))
