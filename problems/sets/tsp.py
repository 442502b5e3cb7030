"""Evaluation sets of the TSP: standard sets made from their seeds, `.npz` files and TSPLIB files."""

from __future__ import annotations

import csv
import hashlib
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.interfaces import Benchmark
from problems.formats.tsplib import LARGEST_COORDINATE, TsplibInstance, read_tour, read_tsplib, tour_lengths
from problems.plane import into_unit_square
from problems.sets.common import kinds_of, numbered, taken
from problems.tsp_types import Instance, Original, as_tours

DATA = Path(__file__).parents[1] / "data"


class Recipe(NamedTuple):
    """A family of uniform random sets and the file in `problems/data` with what is known of them."""

    seed: int
    count: int
    file: str
    reference: str


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
    if source in NAMED_SETS:
        recipe, num_nodes = NAMED_SETS[source]
        return [_random_set(source, recipe, num_nodes, taken(limit, recipe.count, source))]
    path = Path(source).expanduser()
    if path.is_dir():
        return _load_files(sorted(path.glob("*.tsp")), limit, f"{path}/*.tsp")
    if path.suffix == ".npz" and path.is_file():
        return [_load_npz(path, limit)]
    if path.is_file():
        return _load_files([path], limit, source)
    kinds = "a .npz file, a TSPLIB file or a folder of .tsp files"
    raise ValueError(f"unknown source {source!r}: neither one of {', '.join(NAMED_SETS)} nor the path of {kinds}")


def kool_tsp_validation(num_nodes: int, n: int) -> Benchmark:
    """The first n of Kool's 10,000 validation instances, a recipe that holds for any number of nodes."""
    name = f"kool/tsp{num_nodes}-val"
    return _random_set(name, KOOL_VALIDATION, num_nodes, taken(n, KOOL_VALIDATION.count, name))


def _random_set(name: str, recipe: Recipe, num_nodes: int, n: int) -> Benchmark:
    """The first n instances of a recipe, with references where the project ships them for all n."""
    checksum = CHECKSUMS.get((recipe.seed, num_nodes))
    # Rows are drawn one after the other, so a set that nothing can be compared with need not be drawn in full.
    coords = np.random.RandomState(recipe.seed).uniform(size=(recipe.count if checksum else n, num_nodes, 2))
    if checksum and (found := hashlib.sha256(coords.tobytes()).hexdigest()[:16]) != checksum:
        raise ValueError(f"{name} must have the checksum {checksum}, this numpy {np.__version__} generated {found}")
    costs = np.full(n, np.nan)
    if checksum:
        with np.load(DATA / recipe.file.format(num_nodes), allow_pickle=False) as file:
            costs = file["cost"][:n] if len(file["cost"]) >= n else costs
    return _benchmark(numbered(name, n), coords[:n], ["EUCLIDEAN"] * n, costs, kinds_of(costs, recipe.reference))


def _load_npz(path: Path, limit: int | None) -> Benchmark:
    """Instances from the array `coords` [n, N, 2], with costs to compare with in `cost` [n] (NaN: unknown)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except Exception as error:  # a damaged archive can fail in any part of zipfile, zlib or numpy
        raise ValueError(f"{path} is not a readable .npz file without pickled objects: {error}") from error
    if "coords" not in arrays or not arrays.keys() <= {"coords", "cost", "reference"}:
        raise ValueError(f"{path} must hold coords and may hold cost and reference, got {sorted(arrays)}")

    coords = arrays["coords"]
    shaped = coords.ndim == 3 and coords.shape[0] >= 1 and coords.shape[1] >= 3 and coords.shape[2] == 2
    if not shaped or coords.dtype.kind not in "fiu":
        shape = f"{coords.dtype} {list(coords.shape)}"
        raise ValueError(f"{path}: coords must be numbers [n, N, 2] with n >= 1 and N >= 3, got {shape}")
    coords = coords.astype(np.float64)
    if not (np.abs(coords) <= LARGEST_COORDINATE).all():
        row = int((~(np.abs(coords) <= LARGEST_COORDINATE)).any(axis=(1, 2)).argmax())
        raise ValueError(f"{path}: coordinates must lie within +-{LARGEST_COORDINATE:g}, instance {row} does not")

    cost = arrays.get("cost", np.full(len(coords), np.nan))
    if cost.shape != coords.shape[:1] or cost.dtype.kind not in "fiu" or np.isinf(cost).any() or (cost < 0).any():
        shape = f"{cost.dtype} {list(cost.shape)}"
        raise ValueError(f"{path}: cost must be {len(coords)} numbers >= 0, or NaN where unknown, got {shape}")
    reference = arrays.get("reference", np.array(f"cost of {path.name}"))
    if reference.dtype.kind != "U" or reference.ndim != 0:
        raise ValueError(f"{path}: reference must be one string, got {reference.dtype} {list(reference.shape)}")
    n = taken(limit, len(coords), str(path))
    return _benchmark(
        numbered(path.stem, n), coords[:n], ["EUCLIDEAN"] * n, cost[:n], kinds_of(cost[:n], str(reference))
    )


def _load_files(paths: list[Path], limit: int | None, source: str) -> list[Benchmark]:
    """One Benchmark per size, in ascending order of size, from the first `limit` TSPLIB files."""
    if not paths:
        raise ValueError(f"there are no files {source}")
    by_size: dict[int, list[tuple[TsplibInstance, float, str]]] = {}
    for path in paths[: taken(limit, len(paths), source)]:
        instance = read_tsplib(path)
        by_size.setdefault(len(instance.coords), []).append((instance, *_reference(path, instance)))
    benchmarks = []
    for _, group in sorted(by_size.items()):
        instances, costs, labels = zip(*group, strict=True)
        names, coords, metrics = (list(column) for column in zip(*instances, strict=True))
        benchmarks.append(_benchmark(names, np.stack(coords), metrics, np.array(costs), list(labels)))
    return benchmarks


def _reference(path: Path, instance: TsplibInstance) -> tuple[float, str]:
    """Cost and origin of the best solution known of a TSPLIB file: the tour beside it, else the shipped table."""
    tour_path = path.with_suffix(".opt.tour")
    num_nodes = len(instance.coords)
    if tour_path.is_file():
        tour = read_tour(tour_path)
        if len(tour) != num_nodes:
            raise ValueError(f"{tour_path}: the tour has {len(tour)} nodes, {path} has {num_nodes}")
        coords = torch.from_numpy(instance.coords)
        return float(tour_lengths(coords, torch.tensor([tour]), instance.metric)), "optimal (.opt.tour)"
    # All instances of the table are EUC_2D: another metric or size under the same name is another instance.
    optimum = _tsplib_optima().get((instance.name, num_nodes)) if instance.metric == "EUC_2D" else None
    return (float("nan"), "") if optimum is None else (optimum, "optimal (TSPLIB)")


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
    coords, metrics = original
    index, tours = index.cpu(), as_tours(actions.cpu(), coords.shape[1])
    lengths = torch.empty(len(index), dtype=torch.float64)
    for metric in set(metrics):
        rows = torch.tensor([metrics[i] == metric for i in index.tolist()], dtype=torch.bool)
        lengths[rows] = tour_lengths(coords[index[rows]], tours[rows], metric)
    return lengths
