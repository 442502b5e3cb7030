"""Evaluation sets of the JSSP: standard ones, shipped or made from seeds; `.npz` files; text and JSON files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import torch

from gumbeldore.instance_set import InstanceSet
from problems.common.files import Reference, load_files, suffix_of, taken
from problems.common.fingerprint import fingerprint
from problems.common.sets import DATA, numbered, verify
from problems.formats.job_shop import FIELDS, LARGEST_COUNT, NO_OPERATION, NOT_FIXED, JsspInstance, check_size
from problems.formats.job_shop_json import read_json
from problems.formats.jsplib import read_jssp
from problems.formats.npz import REFERENCES, Arrays, whole
from problems.jssp.instances import DUE, Instance, random_instances
from problems.jssp.objectives import MAKESPAN
from problems.jssp.originals import Original
from problems.jssp.shop_sets import MEANT, ShopSets, costs_with_fingerprint, first_of, stacked
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


class JobShopSets(ShopSets):
    """The evaluation sets of the JSSP.

    In an `.npz`, `times` and `machines` are [n, J, O], where machine -1 stands for no operation; if there are any,
    `release` [n, J], `machine_release` [n, M], `waits` [n, J, O], `due` and `weight` [n, J], and `fixed` [n, J, O], NaN
    where an operation has no fixed start.
    """

    title = "job shop"
    problem = "jssp"
    suffixes = (".txt", ".jsp", ".jss", ".json", "")  # JSPLIB's have none
    arrays = Arrays({"times", "machines"}, {"release", "machine_release", "waits", "fixed", *DUE, *REFERENCES})
    validation_sizes = [(6, 6), (10, 10), (20, 20)]
    validation_count = 10_000

    original = Original

    def named(self) -> dict[str, Callable[[int | None], list[InstanceSet]]]:
        return {
            **{name: partial(self._taillard, name) for name in TAILLARD_SETS},
            **{name: partial(self._l2d, name) for name in L2D_SETS},
            **{name: partial(load_files, path, library=self) for name, path in FILES.items()},
            **super().named(),
        }

    def read(self, path: Path) -> list[JsspInstance]:
        shops = read_json(path) if suffix_of(path) == ".json" else read_jssp(path)
        for shop in shops:
            self.original.of(*stacked([shop])).check(f"{path}: {shop.name}" if len(shops) > 1 else str(path))
        return shops

    def size(self, shop: JsspInstance) -> tuple[int, ...]:
        """Operations to be scheduled, then jobs, machines and most operations of a job."""
        remaining = (shop.machines >= 0) & (shop.fixed == NOT_FIXED)
        return int(remaining.sum()), len(shop.release), len(shop.machine_release), shop.times.shape[1]

    def reference(self, path: Path, shop: JsspInstance) -> Reference:
        return Reference(*self.best_known(shop), warnings=(f"{shop.name}: {shop.remark}",) if shop.remark else ())

    def whole_numbers(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        """As int64, NOT_FIXED where `fixed` is NaN."""
        times, machines = arrays["times"], arrays["machines"]
        if times.ndim != 3 or not times.size or machines.shape != times.shape:
            shapes = f"{list(times.shape)} and {list(machines.shape)}"
            raise ValueError(f"{where}: times and machines must be [n, J, O], none of them 0, got {shapes}")
        n, jobs, ops = times.shape
        check_size(where, jobs=jobs, operations_of_the_longest=ops, fields=FIELDS)
        given = {"machines": whole(machines, times.shape, f"{where}: machines")}
        count = 1 + int(given["machines"].max())
        if np.ndim(released := arrays.get("machine_release")) == 2:
            count = released.shape[1]
        if count > LARGEST_COUNT:
            raise ValueError(f"{where}: machines must be below {LARGEST_COUNT}, got {count - 1}")
        check_size(where, instances=n, machines=max(count, 1))
        shapes = {**dict.fromkeys(("release", *DUE), (n, jobs)), "machine_release": (n, count)}
        lacking = {"fixed": NOT_FIXED}
        given |= {
            name: whole(
                array, shapes.get(name, times.shape), f"{where}: {name}", lacking.get(name), MEANT.get(name, "")
            )
            for name, array in arrays.items()
            if name not in given
        }
        nowhere = given["machines"] == NO_OPERATION
        for name, wrong in (("times", given["times"] > 0), ("fixed", given.get("fixed", given["times"]) > NOT_FIXED)):
            if name in arrays and (wrong & nowhere).any():
                place = [int(each[0]) for each in (wrong & nowhere).nonzero()]
                raise ValueError(f"{where}: {name}{place} must not be given, machines{place} is -1: no operation")
        return given

    def draw(self, number: int, jobs: int, machines: int, generator: torch.Generator) -> Instance:
        return random_instances(1, jobs, machines, generator)

    def fingerprint(self, arrays: Mapping[str, np.ndarray]) -> str:
        """The lengths of the jobs are part of it unless each job visits each machine once.

        Then no other shape is possible.
        """
        times, machines = arrays["times"], arrays["machines"]
        there = machines >= 0
        each_once = (np.sort(machines, axis=-1) == np.arange(machines.shape[-1])).all()
        lengths = [] if each_once else [there.sum(axis=-1)]
        return fingerprint(times[there], machines[there], *lengths, dtype="<i8")

    def _taillard(self, name: str, limit: int | None) -> list[InstanceSet]:
        """The first instances of Taillard's, one InstanceSet per size."""
        instances = [each for each in taillard_instances() if each.times.shape in TAILLARD_SETS[name]]
        groups = groupby(instances[: taken(limit, len(instances), name)], self.size)  # they are sorted by size
        return [self._with_best_known(list(group)) for _, group in groups]

    def _with_best_known(self, shops: list[JsspInstance]) -> InstanceSet:
        costs, kinds = zip(*map(self.best_known, shops), strict=True)
        return self.of_files(shops, np.array(costs), list(kinds))

    def _l2d(self, name: str, limit: int | None) -> list[InstanceSet]:
        """The first instances of a validation set of Learning to Dispatch; times are 1..98, not 1..99."""
        jobs, machines = L2D_SETS[name]
        count = 100
        random = np.random.RandomState(200)
        times, orders = np.empty((2, count, jobs, machines), dtype=np.int64)
        for i in range(count):
            times[i] = random.randint(1, 99, size=(jobs, machines))
            orders[i] = random.random_sample((jobs, machines)).argsort(axis=1)
        arrays = {"times": times, "machines": orders}
        expected = L2D_FINGERPRINTS[jobs, machines]
        verify(name, expected, self.fingerprint(arrays))
        n = taken(limit, count, name)
        costs, kinds, described = costs_with_fingerprint(f"jssp_{jobs}x{machines}_l2d.npz")
        if described != expected or self.objective != MAKESPAN:
            costs, kinds = np.empty(0), []
        original = self.original.of({key: array[:n] for key, array in arrays.items()})
        return [self.instance_set(numbered(name, n), original, *first_of(n, costs, kinds))]
