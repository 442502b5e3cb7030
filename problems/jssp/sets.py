"""Evaluation sets of the JSSP: standard ones, shipped or made from seeds; `.npz` files; text and JSON files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gumbeldore.batches import take
from gumbeldore.instance_set import InstanceSet, MixedSizesError
from problems.common.files import Library, Reference, load_files, suffix_of, taken
from problems.common.sets import DATA, load, numbered
from problems.formats.job_shop import LARGEST_COUNT, NO_OPERATION, NOT_FIXED, JsspInstance
from problems.formats.job_shop_json import read_json
from problems.formats.jsplib import read_jssp
from problems.formats.npz import REFERENCES, Arrays, costs_of, read_npz, whole
from problems.jssp.best_known import best_known, fingerprint
from problems.jssp.instances import DUE, Instance, for_network, lower_bound, random_instances, with_times
from problems.jssp.objectives import MAKESPAN, TARDINESS, cost_of, with_due_dates
from problems.jssp.originals import Original, check_original, for_objective
from problems.jssp.originals import from_arrays as original_from
from problems.jssp.taillard import SIZES, taillard_instances

# jobs and machines -> fingerprint of the 100 instances of Learning to Dispatch's validation [Zhang et al. 2020]
L2D_FINGERPRINTS = {
    (6, 6): "97e6dd37f9800816",
    (10, 10): "d0da1125b7b35b33",
    (15, 15): "e4c456536b84f7ca",
    (20, 20): "030170b531caa8f4",
}
L2D_SETS = {f"l2d/{jobs}x{machines}": (jobs, machines) for jobs, machines in L2D_FINGERPRINTS}
TAILLARD_SETS = {**{f"taillard/{jobs}x{machines}": [(jobs, machines)] for jobs, machines in SIZES}, "taillard": SIZES}
FILES = {name: DATA / f"jssp_{name}.txt" for name in ("abz", "ft", "la", "orb")}  # each of several sizes
NAMED_SETS = [*TAILLARD_SETS, *L2D_SETS, *FILES]

ARRAYS = Arrays({"times", "machines"}, {"release", "machine_release", "waits", "fixed", *DUE, *REFERENCES})
SUFFIXES = (".txt", ".jsp", ".jss", ".json", "")  # of the files taken from a folder; JSPLIB's have none
VALIDATION_COUNT = 10_000
UNKNOWN = (float("nan"), "")  # a reference, and its kind


def load_jssp(source: str, limit: int | None = None, objective: str = MAKESPAN) -> list[InstanceSet]:
    """The instances of `source`, one InstanceSet per size, in ascending order of operations, then jobs.

    Arguments:
        source: one of NAMED_SETS, a `.npz` file, an instance file (any other file) or a folder of files with
            one of SUFFIXES.
        limit: how many instances to take from the front (of a folder: of the first files by name), None for all.
        objective: one of OBJECTIVES; published references are makespans
    """
    named = {
        **{name: partial(_taillard, objective, name) for name in TAILLARD_SETS},
        **{name: partial(_l2d, objective, name) for name in L2D_SETS},
        **{name: partial(_shipped_file, objective, name) for name in FILES},
    }
    return load(source, limit, named, partial(_load_npz, objective), _library(objective))


def validation(jobs: int, machines: int, n: int, objective: str = MAKESPAN) -> InstanceSet:
    """The first n of 10,000 random instances of one size, with the references that the project ships."""
    name = f"validation/{jobs}x{machines}"
    taken(n, VALIDATION_COUNT, name, "")
    shipped, known, expected = shipped_costs(validation_file("jssp", jobs, machines, objective))
    generator, due_generator = (torch.Generator().manual_seed(seed) for seed in (4321, 1234))
    # Drawn one by one, so that the first ones do not depend on how many follow.
    drawn = [random_instances(1, jobs, machines, generator) for _ in range(max(n, len(shipped)))]
    times = torch.cat([each.times for each in drawn]).to(torch.int64).numpy()
    orders = torch.cat([each.machines for each in drawn]).numpy()
    arrays = {"times": times, "machines": orders}
    if objective == TARDINESS:
        late = [with_due_dates(each, each.times.sum(dim=2), due_generator) for each in drawn]
        arrays |= {name: torch.cat([getattr(each, name) for each in late]).numpy() for name in DUE}
    costs, kinds, first = np.full(n, np.nan), [""] * n, slice(len(shipped))
    if fingerprint(times[first], orders[first]) == expected:  # another release of torch may draw others
        costs[first], kinds[first] = shipped[:n], known[:n]
    original = original_from({name: array[:n] for name, array in arrays.items()})
    return _instance_set(objective, numbered(name, n), original, costs, kinds)


def _taillard(objective: str, name: str, limit: int | None) -> list[InstanceSet]:
    """The first instances of Taillard's, one InstanceSet per size."""
    instances = [each for each in taillard_instances() if each.times.shape in TAILLARD_SETS[name]]
    groups = groupby(instances[: taken(limit, len(instances), name)], size)  # they are sorted by size
    return [_with_best_known(objective, list(group)) for _, group in groups]


def _shipped_file(objective: str, name: str, limit: int | None) -> list[InstanceSet]:
    return load_files(FILES[name], limit, _library(objective))


def _library(objective: str) -> Library:
    return Library("job shop", SUFFIXES, read, size, partial(_reference, objective), partial(_from_files, objective))


def read(path: Path) -> list[JsspInstance]:
    """The instances in a file. Raises ValueError that names it for what is not well-formed."""
    shops = read_json(path) if suffix_of(path) == ".json" else read_jssp(path)
    for shop in shops:
        check_original(original_from(*stacked([shop])), f"{path}: {shop.name}" if len(shops) > 1 else str(path))
    return shops


def _l2d(objective: str, name: str, limit: int | None) -> list[InstanceSet]:
    """The first instances of a validation set of Learning to Dispatch; times are 1..98, not 1..99."""
    jobs, machines = L2D_SETS[name]
    count = 100
    random = np.random.RandomState(200)
    times, orders = np.empty((2, count, jobs, machines), dtype=np.int64)
    for i in range(count):
        times[i] = random.randint(1, 99, size=(jobs, machines))
        orders[i] = random.random_sample((jobs, machines)).argsort(axis=1)
    found, expected = fingerprint(times, orders), L2D_FINGERPRINTS[jobs, machines]
    if found != expected:
        raise ValueError(f"{name} must have the checksum {expected}, this numpy {np.__version__} generated {found}")
    n = taken(limit, count, name)
    costs, kinds, described = shipped_costs(f"jssp_{jobs}x{machines}_l2d.npz")
    if described != expected or objective != MAKESPAN:
        costs, kinds = np.full(n, np.nan), [""] * n
    original = original_from({"times": times[:n], "machines": orders[:n]})
    return [_instance_set(objective, numbered(name, n), original, costs[:n], kinds[:n])]


def validation_file(problem: str, jobs: int, machines: int, objective: str) -> str:
    """The file with the costs of validation instances, which need not be there."""
    kind = "" if objective == MAKESPAN else f"_{objective}"
    return f"{problem}_{jobs}x{machines}{kind}_validation.npz"


def shipped_costs(file: str) -> tuple[np.ndarray, list[str], str]:
    """Costs [m] in a file of the project, their m kinds, and the fingerprint of the m instances they belong to."""
    if not (DATA / file).is_file():
        return np.empty(0), [], ""
    with np.load(DATA / file, allow_pickle=False) as arrays:
        costs = arrays["cost"]
        kinds = arrays["kind"].tolist() if "kind" in arrays else ["optimal (CP-SAT)"] * len(costs)
        return costs, kinds, str(arrays["fingerprint"])


def _load_npz(objective: str, path: Path, limit: int | None) -> InstanceSet:
    return from_arrays(read_npz(path, *ARRAYS), str(path), limit, objective)


def from_arrays(
    arrays: dict[str, np.ndarray], where: str, limit: int | None = None, objective: str = MAKESPAN
) -> InstanceSet:
    """Instances from arrays by name, with `cost` [n] and `reference` as in `costs_of`.

    `times` and `machines` [n, J, O], where machine -1 stands for no operation; if there are any, `release` [n, J],
    `machine_release` [n, M], `waits` [n, J, O], `due` and `weight` [n, J], and `fixed` [n, J, O], NaN where an
    operation has no fixed start. `cost` belongs to the objective.

    Arguments:
        where: what the arrays come from, e.g. a path: error messages begin with it, instances are called after it
        limit: how many instances to take from the front, None for all

    Raises ValueError for arrays that are not well-formed.
    """
    ARRAYS.check(set(arrays), where)
    shops = _whole_numbers({name: array for name, array in arrays.items() if name not in REFERENCES}, where)
    total = len(shops["times"])
    n = taken(limit, total, where)
    costs, kinds = costs_of(where, arrays, total)
    original = original_from({name: array[:n] for name, array in shops.items()})
    check_original(original, where)
    names = numbered(Path(where).stem, n)
    if objective == MAKESPAN:
        add_best_known(costs, kinds, map(best_known, _shops(original, names)))
    try:
        return _instance_set(objective, names, original, costs[:n], kinds[:n])
    except MixedSizesError as error:
        raise MixedSizesError(f"{where}: {error}") from None


def add_best_known(costs: np.ndarray, kinds: list[str], known: Iterable[tuple[float, str]]) -> None:
    """Costs and kinds of the best solutions known, in place, where no cost is given."""
    for i, (cost, kind) in enumerate(known):
        if kind and not costs[i] > 0:  # NaN or 0
            costs[i], kinds[i] = cost, kind


def _whole_numbers(arrays: dict[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
    """The arrays as int64, NOT_FIXED for NaN. Raises ValueError unless they are whole numbers of shapes that fit."""
    times, machines = arrays["times"], arrays["machines"]
    if times.ndim != 3 or len(times) < 1 or times[0].size < 2 or machines.shape != times.shape:
        shapes = f"{list(times.shape)} and {list(machines.shape)}"
        raise ValueError(f"{where}: times and machines must be [n, J, O] with n >= 1 and J * O >= 2, got {shapes}")
    n, jobs, _ = times.shape
    shapes = {
        **dict.fromkeys(("release", *DUE), (n, jobs)),
        "machine_release": (n, *np.shape(arrays.get("machine_release", times))[1:2]),
    }
    given = {
        name: whole(array, shapes.get(name, times.shape), f"{where}: {name}", NOT_FIXED if name == "fixed" else None)
        for name, array in arrays.items()
    }
    if "machine_release" not in arrays and given["machines"].max() >= LARGEST_COUNT:
        raise ValueError(f"{where}: machines must be below {LARGEST_COUNT}, got {given['machines'].max()}")
    nowhere = given["machines"] == NO_OPERATION
    for name, wrong in (("times", given["times"] > 0), ("fixed", given.get("fixed", given["times"]) > NOT_FIXED)):
        if name in arrays and (wrong & nowhere).any():
            place = [int(each[0]) for each in (wrong & nowhere).nonzero()]
            raise ValueError(f"{where}: {name}{place} must not be given, machines{place} is -1: no operation")
    return given


def _shops(original: Original, names: list[str]) -> list[JsspInstance]:
    """The instances one by one."""
    arrays = {field: values.numpy() for field, values in original._asdict().items() if field != "first"}
    return [JsspInstance(name, **{field: each[i] for field, each in arrays.items()}) for i, name in enumerate(names)]


def size(shop: JsspInstance) -> tuple[int, ...]:
    """Operations to be scheduled, then jobs, machines and most operations of a job."""
    remaining = (shop.machines >= 0) & (shop.fixed == NOT_FIXED)
    return int(remaining.sum()), len(shop.release), len(shop.machine_release), shop.times.shape[1]


def _reference(objective: str, path: Path, shop: JsspInstance) -> Reference:
    known = best_known(shop) if objective == MAKESPAN else UNKNOWN
    return Reference(*known, warnings=(f"{shop.name}: {shop.remark}",) if shop.remark else ())


def stacked(shops: list) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The arrays of instances of one size together, and the numbers of their first machines."""
    arrays = [shop.arrays() for shop in shops]
    together = {name: np.stack([each[name] for each in arrays]) for name in arrays[0]}
    return together, np.array([shop.first for shop in shops])


def _from_files(objective: str, shops: list[JsspInstance], costs: np.ndarray, kinds: list[str]) -> InstanceSet:
    return _instance_set(objective, [shop.name for shop in shops], original_from(*stacked(shops)), costs, kinds)


def _with_best_known(objective: str, shops: list[JsspInstance]) -> InstanceSet:
    """An InstanceSet of instances of one size, with the best makespans known."""
    known = [best_known(shop) if objective == MAKESPAN else UNKNOWN for shop in shops]
    costs, kinds = zip(*known, strict=True)
    return _from_files(objective, shops, np.array(costs), list(kinds))


def _instance_set(
    objective: str, names: list[str], original: Original, costs: np.ndarray, kinds: list[str]
) -> InstanceSet:
    """An InstanceSet of n instances with a reference cost (or NaN) and its kind each."""
    original = for_objective(original, objective, names[0])
    shop, fixed = original.to_schedule(), original.fixed_ends.amax(dim=2)  # [n, J]
    whole = objective == MAKESPAN
    return InstanceSet(
        names=names,
        instances=for_network(shop),
        originals=original,
        true_cost=partial(_true_cost, objective, with_times(shop, Tensor.double), cost_of_fixed(original)),
        references=torch.tensor(costs, dtype=torch.float64),
        kinds=kinds,
        lower_bounds=torch.maximum(lower_bound(shop), fixed.amax(dim=1)).double() if whole else None,
        pooled=objective == TARDINESS,
    )


def cost_of_fixed(original: Original) -> Tensor:
    """Of the fixed operations: [n] the latest end; with due dates the weighted tardiness of the jobs that are done."""
    ends = original.fixed_ends.amax(dim=2)
    done = original.is_fixed.any(dim=2) & ~(original.there & ~original.is_fixed).any(dim=2)
    late = (original.weight * (ends - original.due).clamp(min=0) * done).sum(dim=1)
    return torch.where(original.weight.any(dim=1), late, ends.amax(dim=1)).double()


def _true_cost(objective: str, shop: Instance, fixed: Tensor, index: Tensor, actions: Tensor) -> Tensor:
    """Costs [m] of the sequences of jobs [m, T] of the instances `index` [m], on the CPU, which has float64.

    Arguments:
        fixed: [n] of `cost_of_fixed`
    """
    index = index.cpu()
    costs = cost_of(objective, take(shop, index), actions.cpu())
    return torch.maximum(costs, fixed[index]) if objective == MAKESPAN else costs + fixed[index]
