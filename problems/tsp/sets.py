"""Evaluation sets of the TSP: standard sets made from their seeds, `.npz` files and TSPLIB files."""

from __future__ import annotations

import csv
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.interfaces import Benchmark
from problems.formats.npz import costs_of, read_npz
from problems.formats.tsplib import TsplibInstance, read_tour, read_tsplib, tour_lengths
from problems.plane import into_unit_square
from problems.sets_common import (
    DATA,
    Library,
    Reference,
    checked_coordinates,
    load,
    numbered,
    shipped_costs,
    taken,
    verify,
    walk_lengths,
)
from problems.tsp.instances import Instance, Original, as_tours, check_tours


class Recipe(NamedTuple):
    """A family of uniform random sets and the file in `problems/data` with what is known of them."""

    seed: int
    count: int
    file: str
    kind: str  # of the costs in it


KOOL_TEST = Recipe(1234, 10_000, "kool_tsp{}_seed1234.npz", "LKH")
KOOL_VALIDATION = Recipe(4321, 10_000, "kool_tsp{}_seed4321.npz", "LKH")
GENERALISATION = Recipe(777, 128, "tsp_{}_seed777.npz", "optimal (Concorde)")

NAMED_SETS = {
    **{f"kool/tsp{n}": (KOOL_TEST, n) for n in (20, 50, 100)},
    **{f"kool/tsp{n}-val": (KOOL_VALIDATION, n) for n in (20, 50, 100)},
    **{f"gd/tsp{n}": (GENERALISATION, n) for n in (200, 500, 1000)},
}

# (seed, N) -> the first 16 hex digits of the sha256 of the float64 coordinates
CHECKSUMS = {
    (1234, 20): "04f192096ef8a242",
    (1234, 50): "9f2fc1297d3a6d63",
    (1234, 100): "e16413180f18711f",
    (4321, 20): "3f09dd26b5d952ed",
    (4321, 50): "01f1426b84882c72",
    (4321, 100): "34cfaee8673fc3c2",
    (777, 200): "ba385530bf222d10",
    (777, 500): "e168f800286087be",
    (777, 1000): "da4decb8c32ef911",
}


def load_tsp(source: str, limit: int | None = None) -> list[Benchmark]:
    """The instances of `source`, one Benchmark per size in ascending order of size.

    Arguments:
        source: a key of NAMED_SETS, a `.npz` file, a TSPLIB file (any other file) or a folder of `.tsp` files.
        limit: how many instances to take from the front (of a folder: the first files by name), None for all.
    """
    named = {name: partial(_random_set, name, *NAMED_SETS[name]) for name in NAMED_SETS}
    return load(source, limit, named, _load_npz, Library("TSPLIB", ".tsp", read_tsplib, _reference, _from_files))


def kool_tsp_validation(num_nodes: int, n: int) -> Benchmark:
    """The first n of Kool's 10,000 validation instances, a recipe that holds for any number of nodes."""
    return _random_set(f"kool/tsp{num_nodes}-val", KOOL_VALIDATION, num_nodes, n)


def _random_set(name: str, recipe: Recipe, num_nodes: int, limit: int | None) -> Benchmark:
    """The first instances of a recipe, with references where the project ships them for all of these."""
    n = taken(limit, recipe.count, name)
    checksum = CHECKSUMS.get((recipe.seed, num_nodes))
    # Rows are drawn one after the other, so a set that nothing can be compared with need not be drawn in full.
    coords = np.random.RandomState(recipe.seed).uniform(size=(recipe.count if checksum else n, num_nodes, 2))
    if checksum:
        verify(name, checksum, coords)
    costs, kinds = shipped_costs(recipe.file.format(num_nodes), n, recipe.kind)
    return _benchmark(numbered(name, n), coords[:n], ["EUCLIDEAN"] * n, costs, kinds)


def _load_npz(path: Path, limit: int | None) -> Benchmark:
    """Instances from the array `coords` [n, N, 2], with costs to compare with in `cost` [n] (NaN: unknown)."""
    arrays = read_npz(path, {"coords"}, {"cost", "reference"})
    coords = checked_coordinates(path, arrays["coords"], 3, "N")
    costs, kinds = costs_of(path, arrays, len(coords))
    n = taken(limit, len(coords), str(path))
    return _benchmark(numbered(path.stem, n), coords[:n], ["EUCLIDEAN"] * n, costs[:n], kinds[:n])


def _from_files(instances: list[TsplibInstance], costs: np.ndarray, kinds: list[str]) -> Benchmark:
    names, coords, metrics = zip(*instances, strict=True)
    return _benchmark(list(names), np.stack(coords), list(metrics), costs, kinds)


def _reference(path: Path, instance: TsplibInstance) -> Reference:
    """The best solution known of a TSPLIB file: the tour beside it, else the shipped table."""
    tour_path = path.with_suffix(".opt.tour")
    num_nodes = len(instance.coords)
    if tour_path.is_file():
        tour = read_tour(tour_path)
        if len(tour) != num_nodes:
            raise ValueError(f"{tour_path}: the tour has {len(tour)} nodes, {path} has {num_nodes}")
        length = float(tour_lengths(torch.from_numpy(instance.coords), torch.tensor([tour]), instance.metric))
        first = tour.index(0)
        return Reference(length, "optimal (.opt.tour)", torch.tensor([*tour[first + 1 :], *tour[:first]]))
    # All instances of the table are EUC_2D: another metric or size under the same name is another instance.
    optimum = _tsplib_optima().get((instance.name, num_nodes)) if instance.metric == "EUC_2D" else None
    return Reference() if optimum is None else Reference(optimum, "optimal (TSPLIB)")


@cache
def _tsplib_optima() -> dict[tuple[str, int], float]:
    with open(DATA / "tsplib_optimal.csv", newline="") as file:
        return {(row["name"], int(row["nodes"])): float(row["optimal"]) for row in csv.DictReader(file)}


def _benchmark(
    names: list[str], coords: np.ndarray, metrics: list[str], costs: np.ndarray, kinds: list[str]
) -> Benchmark:
    """A Benchmark of n instances with coordinates [n, N, 2], a metric, a reference cost (or NaN) and its kind each."""
    original = Original(torch.tensor(coords), metrics)  # the copy lets go of a set cut to n
    return Benchmark(
        names=names,
        instances=Instance(torch.from_numpy(into_unit_square(coords).astype(np.float32))),
        originals=original,
        true_cost=partial(_true_cost, original),
        references=torch.tensor(costs, dtype=torch.float64),
        kinds=kinds,
    )


def _true_cost(original: Original, index: Tensor, actions: Tensor) -> Tensor:
    """Lengths [m] of the tours 0, actions [m, N-1], of the instances `index` [m], on the CPU, which has float64."""
    actions = actions.cpu()
    check_tours(actions, original.coords.shape[1])
    return walk_lengths(*original, index.cpu(), as_tours(actions))
