"""Evaluation sets of the TSP: standard sets made from their seeds, `.npz` files and TSPLIB files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from problems.common.files import Library, Reference, taken
from problems.common.sets import load, numbered, shipped_costs, verify
from problems.formats.npz import NODES, REFERENCES, Arrays, costs_of
from problems.formats.tsplib import Metric, TsplibInstance, doubts, read_tour, read_tsplib
from problems.routing.best_known import of_tsplib, with_published
from problems.routing.distances import walk_lengths
from problems.routing.nodes import Nodes, read_unrounded
from problems.routing.plane import into_unit_square
from problems.routing.references import best_reference
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

ARRAYS = Arrays(set(), REFERENCES, NODES)


def load_tsp(source: str, limit: int | None = None, distances: str | None = None) -> list[InstanceSet]:
    """The instances of `source`, one InstanceSet per size in ascending order of size.

    Arguments:
        source: a key of NAMED_SETS, a `.npz` file, a TSPLIB file (any other file) or a folder of `.tsp`, `.atsp`.
        limit: how many instances to take from the front (of a folder: of the first files by name), None for all.
        distances: as in `problems.formats.tsplib.metric_of`
    """
    named = {name: partial(_named, name) for name in NAMED_SETS}
    read, reference = partial(_read, distances=distances), partial(_reference, distances=distances)
    suffixes = (".tsp", ".atsp")
    library = Library("TSPLIB", suffixes, read, lambda instance: len(instance.coords), reference, _from_files)
    return load(source, limit, named, partial(_load_npz, distances=distances), library, distances)


def kool_tsp_validation(num_nodes: int, n: int) -> InstanceSet:
    """The first n of Kool's 10,000 validation instances, a recipe that holds for any number of nodes."""
    return _random_set(f"kool/tsp{num_nodes}-val", KOOL_VALIDATION, num_nodes, n)


def _named(name: str, limit: int | None) -> list[InstanceSet]:
    return [_random_set(name, *NAMED_SETS[name], limit)]


def _random_set(name: str, recipe: Recipe, num_nodes: int, limit: int | None) -> InstanceSet:
    """The first instances of a recipe, with the references that the project ships."""
    n = taken(limit, recipe.count, name)
    checksum = CHECKSUMS.get((recipe.seed, num_nodes))
    # Rows are drawn one after the other, so a set that nothing can be compared with need not be drawn in full.
    coords = np.random.RandomState(recipe.seed).uniform(size=(recipe.count if checksum else n, num_nodes, 2))
    if checksum:
        verify(name, checksum, coords)
    costs, kinds = shipped_costs(recipe.file.format(num_nodes), n, recipe.kind)
    return _instance_set(numbered(name, n), coords[:n], ["EUCLIDEAN"] * n, costs, kinds)


def _load_npz(path: Path, limit: int | None, distances: str | None) -> InstanceSet:
    return from_arrays(read_unrounded(path, ARRAYS, distances), str(path), limit)


def from_arrays(arrays: dict[str, np.ndarray], where: str, limit: int | None = None) -> InstanceSet:
    """Instances from `coords` [n, N, 2] or `distances` [n, N, N], perhaps with their `cost` [n] (NaN: unknown).

    Where there are `distances` (from row to column), `coords` are but the map that the network sees.

    Arguments:
        where: what the arrays come from, e.g. a path: error messages begin with it, instances are called after it
        limit: how many instances to take from the front, None for all

    Raises ValueError for arrays that are not well-formed.
    """
    ARRAYS.check(set(arrays), where)
    nodes = Nodes.of(arrays, where, 3, "N")
    costs, kinds = costs_of(where, arrays, nodes.shape[0])
    n = taken(limit, nodes.shape[0], where)
    coords, metrics = nodes.first(n)
    costs, kinds = with_published(costs[:n], kinds[:n], [*map(of_tsplib, coords, metrics)])
    return _instance_set(numbered(Path(where).stem, n), coords, metrics, costs, kinds)


def _read(path: Path, distances: str | None) -> list[TsplibInstance]:
    return [read_tsplib(path, distances)]


def _from_files(instances: list[TsplibInstance], costs: np.ndarray, kinds: list[str]) -> InstanceSet:
    names, coords, metrics = zip(*instances, strict=True)
    return _instance_set(list(names), np.stack(coords), list(metrics), costs, kinds)


def _reference(path: Path, instance: TsplibInstance, distances: str | None) -> Reference:
    """The best solution known of a TSPLIB file: the tour beside it, or the published optimum."""
    claim = "optimal" if distances is None else "solution file"  # the tour is optimal for the file's own distances
    published = of_tsplib(instance.coords, instance.metric)
    found = best_reference(path, instance, ".opt.tour", claim, _tour, published)
    return found if published else found._replace(warnings=(*doubts(instance), *found.warnings))


def _tour(path: Path, instance: TsplibInstance) -> tuple[float, Tensor]:
    """Length and actions [N-1] of a tour, which must have the nodes of the instance."""
    tour, num_nodes = read_tour(path), len(instance.coords)
    if len(tour) != num_nodes:
        raise ValueError(f"{path}: the tour has {len(tour)} nodes, the instance has {num_nodes}")
    coords = torch.from_numpy(instance.coords)[None]
    length = float(walk_lengths(coords, [instance.metric], torch.tensor([0]), torch.tensor([tour])))
    first = tour.index(0)
    return length, torch.tensor([*tour[first + 1 :], *tour[:first]])


def _instance_set(
    names: list[str], coords: np.ndarray, metrics: list[Metric], costs: np.ndarray, kinds: list[str]
) -> InstanceSet:
    """A set of n instances with coordinates [n, N, 2], a metric, a reference cost (or NaN) and its kind each."""
    original = Original(torch.tensor(coords), metrics)  # the copy lets go of a set cut to n
    return InstanceSet(
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
