"""Evaluation sets of the TSP: standard sets made from their seeds, `.npz` files and TSPLIB files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from problems.common.files import Reference, taken
from problems.common.sets import checksum_of, numbered, shipped_costs, verify
from problems.formats.npz import NODES, REFERENCES, Arrays, costs_of
from problems.formats.tour_lines import TourInstance, read_tour_lines
from problems.formats.tsplib import UNROUNDED, Metric, TsplibInstance, doubts, read_tour, read_tsplib
from problems.routing.best_known import of_tsplib, with_published
from problems.routing.distances import walk_lengths
from problems.routing.nodes import Nodes
from problems.routing.plane import into_unit_square
from problems.routing.references import best_reference
from problems.routing.sets import RoutingSets
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


class TSPSets(RoutingSets):
    """The evaluation sets of the TSP.

    In an `.npz`, `coords` are [n, N, 2], or `distances` [n, N, N] from row to column, perhaps with their `cost` [n]
    (NaN: unknown). Where there are `distances`, `coords` are but the map that the network sees.
    """

    title = "TSPLIB"
    suffixes = (".tsp", ".atsp")
    arrays = Arrays(set(), REFERENCES, NODES)

    def named(self) -> dict[str, Callable[[int | None], list[InstanceSet]]]:
        return {name: partial(_named, name) for name in NAMED_SETS}

    def from_arrays(self, arrays: dict[str, np.ndarray], where: str, limit: int | None = None) -> InstanceSet:
        self.check_arrays(arrays, where)
        nodes = Nodes.of(arrays, where, 3, "N")
        costs, kinds = costs_of(where, arrays, nodes.shape[0])
        n = taken(limit, nodes.shape[0], where)
        coords, metrics = nodes.first(n)
        costs, kinds = with_published(costs[:n], kinds[:n], [*map(of_tsplib, coords, metrics)])
        return _instance_set(numbered(Path(where).stem, n), coords, metrics, costs, kinds)

    def read(self, path: Path) -> list:
        if (instances := read_tour_lines(path)) is None:
            return [read_tsplib(path, self.distances)]
        self.check_unrounded(str(path))
        return instances

    def of_files(self, instances: list, costs: np.ndarray, kinds: list[str]) -> InstanceSet:
        names, coords, metrics = zip(*(each[:3] for each in instances), strict=True)
        return _instance_set(list(names), np.stack(coords), list(metrics), costs, kinds)

    def reference(self, path: Path, instance: TsplibInstance | TourInstance) -> Reference:
        """The tour in the file; of a TSPLIB file the tour beside it, or the published optimum if that is better."""
        if isinstance(instance, TourInstance):
            length, actions = _walked(instance.tour, instance)
            return Reference(length, f"tour of {path.name}", actions)
        # The tour is optimal for the file's own distances.
        claim = "optimal" if self.distances is None else "solution file"
        published = of_tsplib(instance.coords, instance.metric)
        found = best_reference(path, instance, ".opt.tour", claim, _tour, published)
        return found if published else found._replace(warnings=(*doubts(instance), *found.warnings))


def kool_tsp_validation(num_nodes: int, n: int) -> InstanceSet:
    """The first n of Kool's 10,000 validation instances, a recipe that holds for any number of nodes."""
    name = f"kool/tsp{num_nodes}-val"
    return _random_set(name, KOOL_VALIDATION, num_nodes, taken(n, KOOL_VALIDATION.count, name, ""))


def _named(name: str, limit: int | None) -> list[InstanceSet]:
    return [_random_set(name, *NAMED_SETS[name], limit)]


def _random_set(name: str, recipe: Recipe, num_nodes: int, limit: int | None) -> InstanceSet:
    """The first instances of a recipe, with the references that the project ships."""
    n = taken(limit, recipe.count, name)
    checksum = CHECKSUMS.get((recipe.seed, num_nodes))
    # Rows are drawn one after the other, so a set that nothing can be compared with need not be drawn in full.
    coords = np.random.RandomState(recipe.seed).uniform(size=(recipe.count if checksum else n, num_nodes, 2))
    if checksum:
        verify(name, checksum, checksum_of(coords))
    costs, kinds = shipped_costs(recipe.file.format(num_nodes), n, recipe.kind)
    return _instance_set(numbered(name, n), coords[:n], [UNROUNDED] * n, costs, kinds)


def _tour(path: Path, instance: TsplibInstance) -> tuple[float, Tensor]:
    """Length and actions [N-1] of a tour, which must have the nodes of the instance."""
    tour, num_nodes = read_tour(path), len(instance.coords)
    if len(tour) != num_nodes:
        raise ValueError(f"{path}: the tour has {len(tour)} nodes, the instance has {num_nodes}")
    return _walked(tour, instance)


def _walked(tour: list[int], instance: TsplibInstance | TourInstance) -> tuple[float, Tensor]:
    """Length and actions [N-1] of a tour."""
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
