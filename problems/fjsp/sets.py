"""Evaluation sets of the FJSP: random ones made from seeds; `.npz` files; `.fjs` files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from problems.common.files import suffix_of
from problems.common.fingerprint import fingerprint
from problems.fjsp.instances import Instance, random_instances
from problems.fjsp.originals import Original
from problems.formats.fjs import FjspInstance, read_fjs
from problems.formats.job_shop import check_size
from problems.formats.npz import REFERENCES, Arrays, whole
from problems.jssp.instances import DUE
from problems.jssp.shop_sets import MEANT, ShopSets, stacked


class FlexibleShopSets(ShopSets):
    """The evaluation sets of the FJSP; random ones have similar and uniform times in turn.

    In an `.npz`, `times` is [n, J, O, M], -1 where the machine cannot do the operation or no operation is; if there are
    any, `release` [n, J], `machine_release` [n, M], `waits` [n, J, O], `due` and `weight` [n, J].
    """

    title = "flexible job shop"
    problem = "fjsp"
    suffixes = (".fjs", ".txt")
    arrays = Arrays({"times"}, {"release", "machine_release", "waits", *DUE, *REFERENCES})
    validation_sizes = [(10, 5), (20, 5), (20, 10)]
    validation_count = 1_000

    original = Original

    def read(self, path: Path) -> list[FjspInstance]:
        if suffix_of(path) == ".json":
            rule = "flexible shops have no JSON here: give .fjs or arrays (docs/data.md); problem=jssp reads JSON"
            raise ValueError(f"{path}: {rule}")
        shops = read_fjs(path)
        self.original.of(*stacked(shops)).check(str(path))
        return shops

    def size(self, shop: FjspInstance) -> tuple[int, ...]:
        """Operations to be scheduled, then jobs, machines and most operations of a job."""
        jobs, ops, machines = shop.times.shape
        return int((shop.times >= 0).any(axis=2).sum()), jobs, machines, ops

    def whole_numbers(self, arrays: Mapping[str, np.ndarray], where: str) -> dict[str, np.ndarray]:
        times = arrays["times"]
        if times.ndim != 4 or not times.size:
            raise ValueError(f"{where}: times must be [n, J, O, M], got {list(times.shape)}")
        n, jobs, ops, machines = times.shape
        check_size(where, jobs=jobs, operations_of_the_longest=ops, fields=machines + 1)
        shapes = {"times": times.shape, "machine_release": (n, machines), "waits": (n, jobs, ops)}
        shapes |= dict.fromkeys(("release", *DUE), (n, jobs))
        given = {
            name: whole(array, shapes[name], f"{where}: {name}", meant=MEANT.get(name, ""))
            for name, array in arrays.items()
        }
        there = (given["times"] >= 0).any(axis=3)
        before, after = there.cumsum(axis=2) > 0, there[..., ::-1].cumsum(axis=2)[..., ::-1] > 0
        if (gap := ~there & before & after).any():
            row, job, op = (int(each[0]) for each in gap.nonzero())
            raise ValueError(f"{where}: times[{row}, {job}, {op}] has no machine, but operations before and after it")
        return given

    def draw(self, number: int, jobs: int, machines: int, generator: torch.Generator) -> Instance:
        return random_instances(1, jobs, machines, number % 2 == 0, generator)

    def fingerprint(self, arrays: Mapping[str, np.ndarray]) -> str:
        """Whatever the numbers of the places of the operations are."""
        there = (arrays["times"] >= 0).any(axis=-1)
        return fingerprint(arrays["times"][there], there.sum(axis=-1), dtype="<i8")
