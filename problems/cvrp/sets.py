"""Evaluation sets of the CVRP: standard sets made from their seeds, `.npz` files and CVRPLIB files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet, as_they_are
from problems.common.files import Reference, taken
from problems.common.sets import checksum_of, numbered, shipped_costs, verify
from problems.cvrp.instances import Instance, Original, as_walks, check_routes, of_routes
from problems.formats.cvrplib import LARGEST_DEMAND, CvrplibInstance, read_cvrplib, read_solution
from problems.formats.npz import NODES, REFERENCES, Arrays, costs_of
from problems.formats.tsplib import CONVENTIONS, EXACT, UNROUNDED, Metric
from problems.routing.best_known import of_cvrplib, with_published
from problems.routing.distances import is_whole, title_of, walk_lengths
from problems.routing.nodes import Nodes
from problems.routing.plane import into_unit_square
from problems.routing.references import FEW_DIGITS, best_reference
from problems.routing.sets import RoutingSets


class Recipe(NamedTuple):
    """A random set, and what is known of it."""

    seed: int
    count: int
    num_customers: int
    capacity: int
    file: str  # in `problems/data`, with costs
    kind: str | None  # of these costs, None: as the file says
    means: dict[str, float]  # of the costs of all its instances


KOOL_CAPACITY = {20: 30, 50: 40, 100: 50}  # by the number of customers
KOOL_COUNT = 10_000
KOOL_VALIDATION_SEED = 4321
KOOL_FILE = "kool_cvrp{}_seed{}.npz"


def _generalisation(seed: int, n: int, capacity: int, hgs: float) -> Recipe:
    return Recipe(seed, 128, n, capacity, f"cvrp_{n}_test.npz", "LKH3 quality", {"HGS": hgs})


NAMED_SETS = {
    **{
        f"kool/cvrp{n}": Recipe(1234, KOOL_COUNT, n, KOOL_CAPACITY[n], KOOL_FILE.format(n, 1234), None, {})
        for n in (20, 50, 100)
    },
    "gd/cvrp200": _generalisation(12345, 200, 80, 19.9455),
    "gd/cvrp500": _generalisation(1234, 500, 100, 36.5613),
    "gd/cvrp1000": _generalisation(1234, 1000, 250, 36.2886),
}

# (seed, number of instances, N) -> the first 16 hex digits of the sha256 of the float64 depots, the float64 customers
# and the int64 demands
CHECKSUMS = {
    (1234, 10_000, 20): "de838427abccda27 a624de24ec4df25f 68d8cc4eba7a042b",
    (1234, 10_000, 50): "de838427abccda27 bed6203dc0687ddd 302aeb78e7ca43ef",
    (1234, 10_000, 100): "de838427abccda27 2722963443b9cea8 d9e9143e34e3b2b7",
    (4321, 10_000, 20): "84945a9742ea12ea a81ac0eca8304f47 19a2428cc95ba471",
    (4321, 10_000, 50): "84945a9742ea12ea e2190d35be3df2f7 690dba0f78d7f332",
    (4321, 10_000, 100): "84945a9742ea12ea 662c6e92b285e4b1 fea7b701ea971bf3",
    (12345, 128, 200): "f85b32385b1bdd52 b175a6cb522ddb04 2f5d1f01e1e1672f",
    (1234, 128, 500): "d69bdeabbf437649 4b5299e5a7118fb6 227f6475ec46b9b7",
    (1234, 128, 1000): "d69bdeabbf437649 f7dc0749e100777b 40d0d2de44c18482",
}


class _Raw(NamedTuple):
    """n instances in their own units."""

    coords: np.ndarray  # [n, N+1, 2] float64; node 0 is the depot
    demands: np.ndarray  # [n, N+1] int64
    capacity: np.ndarray  # [n] int64


class CVRPSets(RoutingSets):
    """The evaluation sets of the CVRP.

    In an `.npz`, `coords` are [n, N+1, 2], or `distances` [n, N+1, N+1] from row to column; `demands` [n, N+1],
    `capacity` [n] or [], perhaps with their `cost` [n]. Where there are `distances`, `coords` are but the map that the
    network sees.
    """

    title = "CVRPLIB"
    suffixes = (".vrp",)
    arrays = Arrays({"demands", "capacity"}, REFERENCES, NODES)

    def named(self) -> dict[str, Callable[[int | None], list[InstanceSet]]]:
        return {name: partial(_named, name) for name in NAMED_SETS}

    def from_arrays(self, arrays: dict[str, np.ndarray], where: str, limit: int | None = None) -> InstanceSet:
        self.check_arrays(arrays, where)
        nodes = Nodes.of(arrays, where, 2, "N+1")
        demands, capacity = _loads(arrays, where, nodes.shape)
        costs, kinds = costs_of(where, arrays, nodes.shape[0])
        n = taken(limit, nodes.shape[0], where)
        coords, metrics = nodes.first(n)
        raw = _Raw(coords, demands[:n], capacity[:n])
        costs, kinds = with_published(costs[:n], kinds[:n], [*map(of_cvrplib, *raw, metrics)])
        return _instance_set(numbered(Path(where).stem, n), raw, metrics, costs, kinds)

    def read(self, path: Path) -> list[CvrplibInstance]:
        return [read_cvrplib(path, self.distances)]

    def of_files(self, instances: list[CvrplibInstance], costs: np.ndarray, kinds: list[str]) -> InstanceSet:
        raw = _Raw(
            np.stack([each.coords for each in instances]),
            np.stack([each.demands for each in instances]),
            np.array([each.capacity for each in instances], dtype=np.int64),
        )
        names, metrics = [each.name for each in instances], [each.metric for each in instances]
        return _instance_set(names, raw, metrics, costs, kinds)

    def reference(self, path: Path, instance: CvrplibInstance) -> Reference:
        """The best solution known of a CVRPLIB file: the `.sol` beside it, or the published cost."""
        published = of_cvrplib(instance.coords, instance.demands, instance.capacity, instance.metric)
        return best_reference(path, instance, ".sol", "solution file", _solution, published)


def validation(num_customers: int, capacity: tuple[int, int], n: int) -> InstanceSet:
    """The first n of 10,000 instances by Kool's recipe (seed 4321), with the references that are shipped.

    Arguments:
        capacity: lowest and highest of the vehicles; unless they are equal, it is drawn last for each instance.
    """
    name = f"kool/cvrp{num_customers}-val"
    n = taken(n, KOOL_COUNT, name, "")
    random = np.random.RandomState(KOOL_VALIDATION_SEED)
    coords, demands = _draw(name, random, KOOL_VALIDATION_SEED, KOOL_COUNT, num_customers)
    lowest, highest = capacity
    if lowest == highest:
        capacities = np.full(n, lowest, dtype=np.int64)
    else:
        name += f"-capacity{lowest}to{highest}"
        capacities = random.randint(lowest, highest + 1, KOOL_COUNT, dtype=np.int64)[:n]
    costs, kinds = np.full(n, np.nan), [""] * n
    if lowest == highest == KOOL_CAPACITY.get(num_customers):
        costs, kinds = shipped_costs(KOOL_FILE.format(num_customers, KOOL_VALIDATION_SEED), n)
    return _instance_set(numbered(name, n), _Raw(coords[:n], demands[:n], capacities), [UNROUNDED] * n, costs, kinds)


def _named(name: str, limit: int | None) -> list[InstanceSet]:
    return [_random_set(name, NAMED_SETS[name], limit)]


def _random_set(name: str, recipe: Recipe, limit: int | None) -> InstanceSet:
    """The first instances of a recipe, with the references that the project ships."""
    n = taken(limit, recipe.count, name)
    random = np.random.RandomState(recipe.seed)
    coords, demands = _draw(name, random, recipe.seed, recipe.count, recipe.num_customers)
    raw = _Raw(coords[:n], demands[:n], np.full(n, recipe.capacity, dtype=np.int64))
    costs, kinds = shipped_costs(recipe.file, n, recipe.kind)
    means = recipe.means if n == recipe.count else {}
    return _instance_set(numbered(name, n), raw, [UNROUNDED] * n, costs, kinds)._replace(means=means)


def _draw(
    name: str, random: np.random.RandomState, seed: int, count: int, num_customers: int
) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates [count, N+1, 2] and demands [count, N+1] by Kool's recipe; `random` has just got `seed`.

    All must be drawn to take some: each of the three draws begins where the one before it ended.
    """
    depots = random.uniform(size=(count, 2))
    customers = random.uniform(size=(count, num_customers, 2))
    demands = random.randint(1, 10, (count, num_customers), dtype=np.int64)
    if checksum := CHECKSUMS.get((seed, count, num_customers)):
        verify(name, checksum, checksum_of(depots, customers, demands))
    return np.concatenate([depots[:, None], customers], axis=1), np.pad(demands, ((0, 0), (1, 0)))


def _loads(arrays: dict[str, np.ndarray], where: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Demands and capacities as int64, refused unless all nodes of `shape` [n, N+1] can be served."""
    demands, capacity = arrays["demands"], arrays["capacity"]
    depot = "; the first is the depot's, 0: np.insert(demands, 0, 0, axis=-1)"
    without_depot = demands.shape == (shape[0], shape[1] - 1)
    demands = _whole(where, "demands", demands, shape, depot if without_depot else "")
    capacity = _whole(where, "capacity", np.full(shape[0], capacity) if capacity.ndim == 0 else capacity, shape[:1])
    _refuse(where, demands[:, 0] != 0, "the depot, node 0, must have the demand 0")
    _refuse(where, capacity < 1, "capacity must be at least 1")
    _refuse(where, (demands > capacity[:, None]).any(axis=1), "demands must be at most the capacity")
    return demands, capacity


def _whole(where: str, name: str, array: np.ndarray, shape: tuple[int, ...], hint: str = "") -> np.ndarray:
    """The array [n, ...] as int64, refused unless it has this shape and holds whole numbers 0..LARGEST_DEMAND.

    Arguments:
        hint: what to say of a wrong shape
    """
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise ValueError(f"{where}: {name} must be numbers {list(shape)}, got {array.dtype} {list(array.shape)}{hint}")
    rows = array.reshape(len(array), -1).astype(np.float64)  # float16 would take the bound for infinite
    _refuse(where, ((rows < 0) | (rows > LARGEST_DEMAND)).any(axis=1), f"{name} must lie within 0..{LARGEST_DEMAND}")
    # Scaled demands like 3/30 are refused, not rounded: which sums of them fill a vehicle would be a matter of luck.
    fraction = (rows != np.rint(rows)).any(axis=1)  # of NaN, too
    _refuse(where, fraction, f"{name} must be whole numbers (scale demands and capacity to whole numbers)")
    return array.astype(np.int64)


def _refuse(where: str, wrong: np.ndarray, rule: str) -> None:
    """Refuses arrays if any of their instances, wrong [n], breaks the rule."""
    if wrong.any():
        raise ValueError(f"{where}: {rule}; instance {int(wrong.argmax())} breaks this")


def _solution(path: Path, instance: CvrplibInstance) -> tuple[float, Tensor]:
    """Cost and actions [N] of the routes in a `.sol` file, which must be legal and cost what the file says."""
    num_customers = len(instance.coords) - 1
    routes, stated = read_solution(path, num_customers)
    for place, route in enumerate(routes, start=1):
        if (load := int(instance.demands[route].sum())) > instance.capacity:
            raise ValueError(f"{path}: route {place} loads {load}, more than the capacity {instance.capacity}")
    actions = of_routes(routes, num_customers)
    cost = _cost(instance, actions)
    if stated is not None and not _equal(stated, cost, instance.metric):
        rule = f"the routes cost {cost:.12g} under {title_of(instance.metric)}, the file says {stated:.12g}"
        others = CONVENTIONS if isinstance(instance.metric, str) else {}
        for word, metric in others.items():
            if _equal(stated, _cost(instance._replace(metric=metric), actions), metric):
                rule += f", which is their cost with problem.distances={word}"
        raise ValueError(f"{path}: {rule}")
    return cost, actions


def _cost(instance: CvrplibInstance, actions: Tensor) -> float:
    """The cost of the routes that actions [N] stand for."""
    coords, walk = torch.from_numpy(instance.coords)[None], as_walks(actions[None], len(actions))
    return float(walk_lengths(coords, [instance.metric], torch.tensor([0]), walk))


def _equal(stated: float, cost: float, metric: Metric) -> bool:
    """Whether a cost is the one that a file states; exact ones are stated with few digits."""
    return stated == cost if is_whole(metric) else abs(stated - cost) <= 0.01 + FEW_DIGITS * cost


def _instance_set(
    names: list[str], raw: _Raw, metrics: list[Metric], costs: np.ndarray, kinds: list[str]
) -> InstanceSet:
    """An InstanceSet of n instances with a metric, a reference cost (or NaN) and its kind each."""
    original = Original(*map(torch.tensor, raw), metrics)  # the copies let go of a set cut to n
    seen = torch.from_numpy(into_unit_square(raw.coords).astype(np.float32))
    return InstanceSet(
        names=names,
        instances=Instance(seen, original.demands, original.capacity),
        originals=original,
        true_cost=partial(_true_cost, original),
        adjusted=as_they_are if set(map(title_of, metrics)) <= set(EXACT) else partial(_last_shorter, original),
        references=torch.tensor(costs, dtype=torch.float64),
        kinds=kinds,
    )


def _true_cost(original: Original, index: Tensor, actions: Tensor) -> Tensor:
    """Costs [m] of the routes that actions [m, N] stand for in the instances `index` [m], on the CPU."""
    index, actions = index.cpu(), actions.cpu()
    coords = original.coords
    check_routes(Instance(coords[index], original.demands[index], original.capacity[index]), actions)
    # A walk repeats nodes where it does not pass the depot; such a step has the length 0 in every metric of the CVRP.
    return walk_lengths(coords, original.metrics, index, as_walks(actions, coords.shape[1] - 1))


def _last_shorter(original: Original, index: Tensor, actions: Tensor) -> Tensor:
    """The routes [m, N], with the last customer reached via the depot where that is shorter by the true cost.

    `CVRP.mask` goes to it directly if its load fits. A matrix, or rounding, may make the way via the depot shorter.
    """
    num_customers = actions.shape[1]
    via_depot = actions.clone()
    via_depot[:, -1] = actions[:, -1] % num_customers + num_customers
    shorter = _true_cost(original, index, via_depot) < _true_cost(original, index, actions)
    return via_depot.where(shorter[:, None].to(actions.device), actions)
