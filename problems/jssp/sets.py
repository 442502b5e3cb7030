"""Evaluation sets of the JSSP: standard ones, shipped or made from seeds; `.npz` files; files in two text formats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from problems.common.files import Library, Reference, load_files, taken
from problems.common.sets import DATA, load, numbered
from problems.formats.jsplib import LARGEST_TOTAL, JsspInstance, read_jssp
from problems.formats.npz import REFERENCES, Arrays, costs_of, read_npz
from problems.jssp.best_known import best_known, fingerprint
from problems.jssp.instances import Instance, Original, for_network, lower_bound, random_instances, schedule
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

ARRAYS = Arrays({"times", "machines"}, REFERENCES)
SUFFIXES = (".txt", ".jsp", ".jss", "")  # of the files taken from a folder; JSPLIB's have none
VALIDATION_COUNT = 10_000


def load_jssp(source: str, limit: int | None = None) -> list[InstanceSet]:
    """The instances of `source`, one InstanceSet per size, in ascending order of operations, then jobs.

    Arguments:
        source: one of NAMED_SETS, a `.npz` file, an instance file (any other file) or a folder of files with
            one of SUFFIXES.
        limit: how many instances to take from the front (of a folder: of the first files by name), None for all.
    """
    named = {
        **{name: partial(_taillard, name) for name in TAILLARD_SETS},
        **{name: partial(_l2d, name) for name in L2D_SETS},
        **{name: partial(_shipped_file, name) for name in FILES},
    }
    return load(source, limit, named, _load_npz, _library())


def validation(jobs: int, machines: int, n: int) -> InstanceSet:
    """The first n of 10,000 random instances of one size, with the references that the project ships."""
    name = f"validation/{jobs}x{machines}"
    taken(n, VALIDATION_COUNT, name, "")
    shipped, known, expected = _shipped(f"jssp_{jobs}x{machines}_validation.npz")
    generator = torch.Generator().manual_seed(4321)
    # Drawn one by one, so that the first ones do not depend on how many follow.
    drawn = [random_instances(1, jobs, machines, generator) for _ in range(max(n, len(shipped)))]
    times = torch.cat([each.times for each in drawn]).to(torch.int64).numpy()
    orders = torch.cat([each.machines for each in drawn]).numpy()
    costs, kinds, first = np.full(n, np.nan), [""] * n, slice(len(shipped))
    if fingerprint(times[first], orders[first]) == expected:  # another release of torch may draw others
        costs[first], kinds[first] = shipped[:n], known[:n]
    return _instance_set(numbered(name, n), times[:n], orders[:n], costs, kinds)


def _taillard(name: str, limit: int | None) -> list[InstanceSet]:
    """The first instances of Taillard's, one InstanceSet per size."""
    instances = [each for each in taillard_instances() if each.times.shape in TAILLARD_SETS[name]]
    groups = groupby(instances[: taken(limit, len(instances), name)], _size)  # they are sorted by size
    return [_with_best_known(list(group)) for _, group in groups]


def _shipped_file(name: str, limit: int | None) -> list[InstanceSet]:
    return load_files(FILES[name], limit, _library())


def _library() -> Library:
    return Library("job shop", SUFFIXES, read_jssp, _size, _reference, _from_files)


def _l2d(name: str, limit: int | None) -> list[InstanceSet]:
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
    costs, kinds, described = _shipped(f"jssp_{jobs}x{machines}_l2d.npz")
    if described != expected:
        costs, kinds = np.full(n, np.nan), [""] * n
    return [_instance_set(numbered(name, n), times[:n], orders[:n], costs[:n], kinds[:n])]


def _shipped(file: str) -> tuple[np.ndarray, list[str], str]:
    """Costs [m] in a file of the project, their m kinds, and the fingerprint of the m instances they belong to."""
    if not (DATA / file).is_file():
        return np.empty(0), [], ""
    with np.load(DATA / file, allow_pickle=False) as arrays:
        costs = arrays["cost"]
        kinds = arrays["kind"].tolist() if "kind" in arrays else ["optimal (CP-SAT)"] * len(costs)
        return costs, kinds, str(arrays["fingerprint"])


def _load_npz(path: Path, limit: int | None) -> InstanceSet:
    return from_arrays(read_npz(path, *ARRAYS), str(path), limit)


def from_arrays(arrays: dict[str, np.ndarray], where: str, limit: int | None = None) -> InstanceSet:
    """Instances from the arrays `times` and `machines` [n, J, M], with `cost` [n] and `reference` as in `costs_of`.

    Arguments:
        where: what the arrays come from, e.g. a path: error messages begin with it, instances are called after it
        limit: how many instances to take from the front, None for all

    Raises ValueError for arrays that are not well-formed.
    """
    ARRAYS.check(set(arrays), where)
    times, machines = arrays["times"], arrays["machines"]
    _check_arrays(times, machines, where)
    n = taken(limit, len(times), where)
    costs, kinds = costs_of(where, arrays, len(times))
    times, machines = times[:n].astype(np.int64), machines[:n].astype(np.int64)
    for i, known in enumerate(map(best_known, times, machines)):
        if known[1] and not costs[i] > 0:  # NaN or 0
            costs[i], kinds[i] = known
    return _instance_set(numbered(Path(where).stem, n), times, machines, costs[:n], kinds[:n])


def _check_arrays(times: np.ndarray, machines: np.ndarray, where: str) -> None:
    """Raises ValueError unless there are times for all operations and every job visits each machine once."""
    shaped = times.ndim == 3 and len(times) >= 1 and times[0].size >= 2 and machines.shape == times.shape
    whole = times.dtype.kind in "iu" or times.dtype.kind == "f" and bool((times == np.rint(times)).all())
    if not shaped or not whole or machines.dtype.kind not in "iu":
        shapes = " and ".join(f"{array.dtype} {list(array.shape)}" for array in (times, machines))
        rule = "times and machines must be whole numbers [n, J, M] with n >= 1 and J * M >= 2"
        raise ValueError(f"{where}: {rule}, got {shapes}")

    wrong = (times < 0).any(axis=(1, 2)) | (times.sum(axis=(1, 2), dtype=np.float64) > LARGEST_TOTAL)
    if wrong.any():
        rule = f"times must be >= 0 and add up to at most {LARGEST_TOTAL:g} per instance"
        raise ValueError(f"{where}: {rule}, those of instance {int(wrong.argmax())} do not")
    ordered, expected = np.sort(machines, axis=2), np.arange(times.shape[2])
    wrong = (ordered != expected).any(axis=(1, 2))
    if wrong.any():
        rule = f"each job must visit the machines 0..{times.shape[2] - 1} once, in instance {int(wrong.argmax())}"
        hint = "; the machines seem to be counted from 1" if (ordered == expected + 1).all() else ""
        raise ValueError(f"{where}: {rule} one does not{hint}")


def _size(instance: JsspInstance) -> tuple[int, int]:
    """Operations, then jobs."""
    jobs, machines = instance.times.shape
    return jobs * machines, jobs


def _reference(path: Path, instance: JsspInstance) -> Reference:
    warnings = (f"{instance.name}: {instance.remark}",) if instance.remark else ()
    return Reference(*best_known(instance.times, instance.machines), warnings=warnings)


def _from_files(instances: list[JsspInstance], costs: np.ndarray, kinds: list[str]) -> InstanceSet:
    times = np.stack([each.times for each in instances])
    machines = np.stack([each.machines for each in instances])
    names, first = [each.name for each in instances], [each.first for each in instances]
    return _instance_set(names, times, machines, costs, kinds, first)


def _with_best_known(instances: list[JsspInstance]) -> InstanceSet:
    """An InstanceSet of instances of one size, with the best makespans known."""
    costs, kinds = zip(*(best_known(each.times, each.machines) for each in instances), strict=True)
    return _from_files(instances, np.array(costs), list(kinds))


def _instance_set(
    names: list[str],
    times: np.ndarray,
    machines: np.ndarray,
    costs: np.ndarray,
    kinds: list[str],
    first: Sequence[int] = (),
) -> InstanceSet:
    """An InstanceSet of n instances, times and machines [n, J, M] int64, a reference cost (or NaN) and its kind each.

    Arguments:
        first: n numbers of the first machine in the input; none: 0
    """
    numbers = torch.tensor(first or [0] * len(names))
    original = Original(torch.tensor(times), torch.tensor(machines), numbers)  # the copies let go of a set cut to n
    return InstanceSet(
        names=names,
        instances=Instance(for_network(original.times), original.machines),
        originals=original,
        true_cost=partial(_true_cost, original),
        references=torch.tensor(costs, dtype=torch.float64),
        kinds=kinds,
        lower_bounds=lower_bound(original.times, original.machines).double(),
    )


def _true_cost(original: Original, index: Tensor, actions: Tensor) -> Tensor:
    """Makespans [m] of the sequences of jobs [m, J*M] of the instances `index` [m], on the CPU, which has float64."""
    index, actions = index.cpu(), actions.cpu()
    times = original.times[index].double()
    start = schedule(times, original.machines[index], actions)
    return (start + times).amax(dim=(1, 2))
