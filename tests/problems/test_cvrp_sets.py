"""Evaluation sets of the CVRP: the published recipes, reference costs, files of the user, and what is refused."""

from __future__ import annotations

import csv
import itertools
import math
import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from gumbeldore import solve
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from problems.common import sets as common
from problems.cvrp import CVRP
from problems.cvrp.instances import Instance, of_routes
from problems.cvrp.reports import CVRPReports
from problems.cvrp.sets import NAMED_SETS, CVRPSets, validation
from problems.formats.cvrplib import read_cvrplib, read_solution
from problems.routing import best_known
from tests.helpers.instance_files import write_vrp
from tests.helpers.matrices import loads, random_matrix, write_matrix
from tests.helpers.policies import FixedPolicy

DATA = Path(__file__).parents[1] / "data" / "cvrplib"
FIRST = torch.tensor([0])


def as_actions(routes: list[list[int]]) -> torch.Tensor:
    """The routes of one solution as actions [1, N]."""
    return of_routes(routes, sum(map(len, routes)))[None]


def alone(n: int, rows: int = 1) -> torch.Tensor:
    """The actions of the solution that visits each of n customers on a route of its own."""
    return as_actions([[customer] for customer in range(1, n + 1)]).repeat(rows, 1)


@pytest.mark.parametrize(
    ("name", "cost", "kind"),
    [
        ("A-n32-k5", 784, "best known for k routes"),
        ("A-n80-k10", 1763, "best known for k routes"),
        ("X-n101-k25", 27591, "best known"),
        ("X-n106-k14", 26362, "best known"),
    ],
)
def test_published_solutions_have_their_cost(tmp_path, name, cost, kind):
    (instance_set,) = CVRPSets().load(str(DATA / f"{name}.vrp"))
    assert instance_set.names == [name] and instance_set.references.tolist() == [cost]
    assert instance_set.kinds == [f"{kind} (.sol)"]
    coords, demands, capacity, metric = read_cvrplib(DATA / f"{name}.vrp")[1:]
    actions = as_actions(read_solution(DATA / f"{name}.sol", len(coords) - 1)[0])
    assert instance_set.true_cost(FIRST, actions).tolist() == [cost]
    assert instance_set.true_cost(FIRST, actions).dtype == torch.float64
    assert instance_set.originals.coords[0].tolist() == coords.tolist() and instance_set.originals.metrics == [metric]
    assert instance_set.instances.demands.tolist() == [demands.tolist()]
    assert instance_set.instances.capacity.tolist() == [capacity]
    # The network sees the same instance in the unit square, x and y by one factor.
    seen = CVRP(5, [20, 20]).cost(instance_set.instances, actions).item() * np.ptp(coords, axis=0).max()
    assert seen == pytest.approx(cost, rel=0.01) and seen != cost
    assert instance_set.instances.coords.dtype == torch.float32
    shutil.copy(DATA / f"{name}.vrp", tmp_path)  # without its solution beside it: the shipped table
    (tabulated,) = CVRPSets().load(str(tmp_path))
    assert (tabulated.references.tolist(), tabulated.kinds) == ([cost], [f"{kind} (CVRPLIB)"])


def test_shipped_table_needs_the_same_content_and_metric(tmp_path):
    text = (DATA / "A-n32-k5.vrp").read_text()
    path = tmp_path / "any.vrp"
    for name in ("A-n32-k5", "mine"):
        path.write_text(text.replace("A-n32-k5", name))
        assert CVRPSets().load(str(path))[0].references.tolist() == [784]
    for old, new in [("CAPACITY : 100", "CAPACITY : 101"), ("EUC_2D", "CEIL_2D"), ("\n 2 96 44", "\n 2 96 45")]:
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
        (other,) = CVRPSets().load(str(path))
        assert other.references.isnan().all() and other.kinds == [""]
    write_vrp(path, [(0, 0), (1, 0), (1, 1)], [0, 1, 1], 100, name="A-n32-k5")
    assert CVRPSets().load(str(path))[0].kinds == [""]


def test_solution_beside_a_file_must_be_legal_and_cost_what_it_says(tmp_path):
    path = write_vrp(tmp_path / "mine.vrp", [(0, 0), (3, 4), (6, 8), (0, 2.5)], [0, 4, 6, 5], 10)
    solution = tmp_path / "mine.sol"
    (tmp_path / "other.vrp").write_text(path.read_text().replace("NAME: mine", "NAME: other"))
    for stated in ("", "Cost 26", "Cost 26.0"):
        solution.write_text(f"Route #1: 1 2\nRoute #2: 3\n{stated}\n")  # 5 + 5 + 10, 3 + 3 (halves go up)
        (instance_set,) = CVRPSets().load(str(path))
        assert (instance_set.references.tolist(), instance_set.kinds) == ([26], ["solution file (.sol)"])
    for text, rule in [
        ("Route #1: 1 2\nRoute #2: 3\nCost 25", "the routes cost 26 under EUC_2D, the file says 25"),
        (
            "Route #1: 1 2\nRoute #2: 3\nCost 25.00",
            "the file says 25, which is their cost with problem.distances=exact",
        ),
        ("Route #1: 1 2\nRoute #2: 3\nCost 25.5", "the file says 25.5"),
        ("Route #1: 1\nRoute #2: 2 3\nCost 26", "route 2 loads 11, more than the capacity 10"),
        ("Route #1: 1 2\nCost 26", "visit 2 of 3 customers, 3 is the first without"),
    ]:
        solution.write_text(text)
        (instance_set,) = CVRPSets().load(str(tmp_path))  # both instances, without that reference
        assert instance_set.names == ["mine", "other"] and instance_set.kinds == ["", ""]
        assert instance_set.left_out == {}
        (warning,) = instance_set.warnings
        assert re.match(f"{re.escape(str(solution))}: .*{re.escape(rule)}.*; this reference is left out", warning)
    solution.write_text("Route #1: 1 2\nRoute #2: 3\nCost 25.00")
    (instance_set,) = CVRPSets("exact").load(str(path))
    assert (instance_set.references.tolist(), instance_set.kinds) == ([25], ["solution file (.sol)"])


def test_costs_published_for_exact_distances(tmp_path, monkeypatch):
    """Of Golden's and Taillard's instances, whose files say EUC_2D."""
    path = write_vrp(tmp_path / "line.vrp", [(1.4 * i, 0) for i in range(9)], [0] + [1] * 8, 100)
    instance = read_cvrplib(path)
    table = csv.DictReader((common.DATA / "cvrplib_best_known.csv").read_text().splitlines())
    rows = [row for row in table if row["family"] == "Golden"]
    assert len(rows) == 12 and {row["convention"] for row in rows} == {"exact"}
    key = (best_known.fingerprint(instance.coords, instance.demands, instance.capacity), "")
    monkeypatch.setattr(
        best_known, "_cvrplib", lambda: {key: best_known.Published(22.4, "best known", "CVRPLIB", "EXACT_2D")}
    )
    (rounded,), (exact,) = CVRPSets().load(str(path)), CVRPSets("exact").load(str(path))
    rule = "the published cost 22.4 is no reference: its distances are EXACT_2D, not EUC_2D"
    assert rounded.warnings == [f"line: {rule}; problem.distances=exact compares with it"] and rounded.kinds == [""]
    assert (exact.references.tolist(), exact.kinds, exact.warnings) == ([22.4], ["best known (CVRPLIB)"], [])
    arrays = {"coords": instance.coords, "demands": instance.demands, "capacity": instance.capacity}
    known = CVRPSets().from_arrays({name: np.array(array)[None] for name, array in arrays.items()}, "arrays")
    assert (known.references.tolist(), known.kinds) == ([22.4], ["best known (CVRPLIB)"])
    (tmp_path / "line.sol").write_text("Route #1: 1 2 3 4 5 6 7 8\nCost 22.40\n")
    (solved,) = CVRPSets("exact").load(str(path))
    assert solved.references.tolist() == pytest.approx([22.4]) and solved.kinds == ["best known (.sol)"]
    assert CVRP(5, [9, 9], distances="exact").load(str(path))[0].kinds == solved.kinds


def test_tables_of_best_known_costs_have_all_rows():
    assert len(best_known._tsplib()) == 129 and len(best_known._cvrplib()) == 238  # M-n200 is there for two k
    assert len(best_known._xml100()) == 9909


@pytest.mark.parametrize("source", NAMED_SETS)
def test_named_sets_are_drawn_in_full_and_cut(source):
    recipe = NAMED_SETS[source]
    n = recipe.num_customers
    (whole,), (part,) = CVRPSets().load(source), CVRPSets().load(source, 7)
    assert whole.instances.coords.shape == (recipe.count, n + 1, 2)
    assert whole.instances.coords.dtype == torch.float32
    assert whole.instances.demands.shape == (recipe.count, n + 1)
    assert (whole.instances.demands[:, 0] == 0).all() and (whole.instances.capacity == recipe.capacity).all()
    assert (whole.instances.demands[:, 1:].amin().item(), whole.instances.demands.amax().item()) == (1, 9)
    assert len(whole.names) == len(whole.references) == len(whole.kinds) == recipe.count
    assert torch.equal(part.instances.coords, whole.instances.coords[:7])
    assert torch.equal(part.instances.demands, whole.instances.demands[:7])
    assert part.names == whole.names[:7] == [f"{source}/{i}" for i in range(7)]
    np.random.seed(recipe.seed)  # the recipe in its own words; the originals stay float64, never rescaled
    depots, points = np.random.uniform(size=(recipe.count, 2)), np.random.uniform(size=(recipe.count, n, 2))
    demands = np.random.randint(1, 10, (recipe.count, n))
    assert part.originals.coords[6].tolist() == [depots[6].tolist(), *points[6].tolist()]
    assert part.instances.demands[6, 1:].tolist() == demands[6].tolist()
    cost = part.true_cost(torch.tensor([6]), alone(n)).item()
    assert cost == pytest.approx(sum(2 * math.dist(depots[6], point) for point in points[6]), rel=1e-12)


@pytest.mark.parametrize(
    ("source", "capacity", "mean", "hgs"),
    [
        ("gd/cvrp200", 80, 20.1726, 19.9455),
        ("gd/cvrp500", 100, 37.2292, 36.5613),
        ("gd/cvrp1000", 250, 37.0905, 36.2886),
    ],
)
def test_references_have_the_published_mean_and_belong_to_their_instances(source, capacity, mean, hgs):
    (instance_set,) = CVRPSets().load(source)
    assert set(instance_set.kinds) == {"LKH3 quality"} and instance_set.means == {"HGS": hgs}
    assert instance_set.references.mean().item() == pytest.approx(mean, abs=6e-5)
    coords, demands, capacities, _ = instance_set.originals
    assert (capacities == capacity).all()
    assert_they_belong_together(coords, demands, capacity, instance_set.references)
    assert CVRPSets().load(source, 127)[0].means == {}  # known for all instances only
    assert CVRPSets().load(source, 127)[0].references.tolist() == instance_set.references[:127].tolist()


def assert_they_belong_together(coords, demands, capacity, references):
    """A lower bound: each unit of demand travels to its customer and back in a vehicle of at most `capacity` units."""
    bound = 2 * ((coords - coords[:, :1]).norm(dim=-1) * demands).sum(dim=1) / capacity
    assert (bound < references).all() and torch.corrcoef(torch.stack([bound, references]))[0, 1] > 0.97


def test_the_first_128_of_the_test_set_with_100_customers_have_references():
    """Of PyVRP, whose mean is that of problems/data/README.md."""
    (known,), (more,) = CVRPSets().load("kool/cvrp100", 128), CVRPSets().load("kool/cvrp100", 129)
    assert set(known.kinds) == {"PyVRP 0.14.1, 8 s"} and known.references.mean().item() == pytest.approx(
        15.5965, abs=5e-5
    )
    coords, demands, _, _ = known.originals
    assert_they_belong_together(coords, demands, 50, known.references)
    assert more.kinds[128] == "" and more.references[128].isnan()


def test_validation_sets():
    whole, part = validation(10, (20, 20), 10_000), validation(10, (20, 20), 5)
    assert part.names == [f"kool/cvrp10-val/{i}" for i in range(5)] and part.kinds == [""] * 5
    assert torch.equal(part.instances.coords, whole.instances.coords[:5])
    assert torch.equal(part.instances.demands, whole.instances.demands[:5])
    assert part.instances.capacity.tolist() == [20] * 5 and part.references.isnan().all()
    drawn = validation(10, (9, 11), 10_000)
    assert torch.equal(drawn.instances.coords, whole.instances.coords)  # the capacities are drawn last
    assert drawn.instances.capacity.unique().tolist() == [9, 10, 11]
    assert validation(10, (9, 11), 5).instances.capacity.tolist() == drawn.instances.capacity[:5].tolist()
    assert drawn.names[0] == "kool/cvrp10-val-capacity9to11/0"
    assert not torch.equal(
        validation(20, (30, 30), 3).instances.coords, CVRPSets().load("kool/cvrp20", 3)[0].instances.coords
    )
    assert CVRP(10, [20, 20]).validation(5, seed=0)[0].names == part.names
    assert CVRP(10, [9, 11]).validation(5, seed=0)[0].names == drawn.names[:5]
    fixed = CVRP(10, [9, 11], validation_capacity=20)
    assert fixed.validation(5, seed=0)[0].names == part.names  # and training draws as before
    assert fixed.generate(99, torch.Generator()).capacity.unique().tolist() == [9, 10, 11]
    with pytest.raises(ValueError, match="has 10000 instances, between 1 and 10000 can be taken, not 10001"):
        validation(10, (20, 20), 10_001)


def test_references_are_taken_from_shipped_files_as_far_as_they_go(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA", tmp_path)
    assert CVRPSets().load("kool/cvrp20", 3)[0].kinds == [""] * 3  # no file, no reference
    for seed in (1234, 4321):
        np.savez(tmp_path / f"kool_cvrp20_seed{seed}.npz", cost=np.arange(4.0) + seed, reference="my solver")
    (test_set,), valid = CVRPSets().load("kool/cvrp20", 3), validation(20, (30, 30), 4)
    assert (test_set.references.tolist(), test_set.kinds) == ([1234, 1235, 1236], ["my solver"] * 3)
    assert (valid.references.tolist(), valid.kinds) == ([4321, 4322, 4323, 4324], ["my solver"] * 4)
    longer = validation(20, (30, 30), 5)
    assert longer.kinds == [*valid.kinds, ""] and longer.references.isnan().tolist() == [False] * 4 + [True]
    for other in (validation(20, (29, 29), 4), validation(20, (30, 31), 4)):
        assert other.references.isnan().all() and not any(other.kinds)


def test_files_of_one_size_keep_their_loads_and_metrics(tmp_path):
    """Rows in any order; customer 2 lies on the depot."""
    coords = [(0, 0), (1, 1), (0, 0)]
    write_vrp(tmp_path / "b.vrp", coords, [0, 2, 3], 5)
    write_vrp(tmp_path / "a.vrp", coords, [0, 1, 3], 4, "CEIL_2D")
    (both,) = CVRPSets().load(str(tmp_path))
    assert both.originals.demands.tolist() == [[0, 1, 3], [0, 2, 3]] and both.originals.capacity.tolist() == [4, 5]
    together, apart = as_actions([[2, 1]]), as_actions([[1], [2]])
    costs = both.true_cost(torch.tensor([1, 0, 1]), torch.cat([together, together, apart]))
    assert costs.tolist() == [2, 4, 2]  # sqrt(2) rounds to 1 and up to 2; steps to the same place cost 0


@pytest.mark.filterwarnings("ignore:the instances have distances of their own")
def test_the_last_customer_is_reached_via_the_depot_where_that_is_shorter(tmp_path):
    """The search sees a map, but 5.385 is rounded to 5 and twice that to 11; or the distances are a matrix."""
    hub = np.where(np.eye(4) + (np.arange(4) == 0) + (np.arange(4) == 0)[:, None] > 0, 1, 9)
    files = [write_vrp(tmp_path / "rounded.vrp", [[0, 0], [2, 5], [-2, -5]], [0, 1, 1], 10)]
    for i, matrix in enumerate((hub, *(random_matrix(4, seed) for seed in range(4)))):
        files.append(write_matrix(tmp_path / f"{i}.vrp", matrix, kind="ACVRP", more=loads([0, 3, 3, 4])))
    problem, improved = CVRP(3, [9, 9]), 0
    for file in files:
        (instance_set,) = CVRPSets().load(str(file))
        count = problem.horizon(instance_set.instances)
        everything = torch.tensor(list(itertools.product(range(2 * count), repeat=count)))
        legal = [each for each in everything if is_legal(instance_set, each)]
        optimum = instance_set.costs(torch.stack(legal)[None]).min().item()
        config = methods.WithoutReplacement(16, 20)
        found = search(problem, FixedPolicy(problem), instance_set.instances, config, torch.Generator().manual_seed(0))
        assert solve((problem, FixedPolicy(problem)), str(file), method=config).cost == optimum
        improved += instance_set.costs(found.actions).min().item() > optimum
    assert improved >= 2


def is_legal(instance_set, actions: torch.Tensor) -> bool:
    try:
        return bool(instance_set.costs(actions[None, None]).isfinite())
    except ValueError:
        return False


@pytest.mark.parametrize("capacity", [10, [10, 20, 30], 10.0, np.array([10, 20, 30], dtype=np.uint8)])
@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_npz(tmp_path, capacity, kind):
    coords = np.random.RandomState(0).uniform(size=(3, 5, 2)) * [[[1]], [[10]], [[1]]]
    demands = np.random.RandomState(1).randint(0, 11, (3, 5)).astype(kind)
    demands[:, 0] = 0
    path = tmp_path / "mine.npz"
    np.savez(path, coords=coords, demands=demands, capacity=capacity, cost=[2.0, np.nan, 3.0], reference="my solver")
    (instance_set,) = CVRPSets().load(str(path))
    assert instance_set.names == ["mine/0", "mine/1", "mine/2"]
    assert instance_set.kinds == ["my solver", "", "my solver"]
    assert instance_set.references[[0, 2]].tolist() == [2.0, 3.0]
    assert instance_set.instances.capacity.tolist() == np.broadcast_to(capacity, 3).tolist()
    assert instance_set.instances.demands.tolist() == demands.tolist()
    assert instance_set.instances.demands.dtype == instance_set.instances.capacity.dtype == torch.int64
    assert np.array_equal(instance_set.instances.coords[0].numpy(), coords[0].astype(np.float32))
    assert instance_set.instances.coords[1].amax() == 1  # moved into the unit square
    expected = [2 * np.linalg.norm(rows - rows[0], axis=1).sum() for rows in coords]
    assert instance_set.true_cost(torch.arange(3), alone(4, 3)).tolist() == pytest.approx(expected, rel=1e-12)
    (part,) = CVRPSets().load(str(path), 2)
    assert len(part.names) == len(part.references) == len(part.kinds) == len(part.instances.capacity) == 2


GOOD = {"coords": np.full((2, 3, 2), 0.5), "demands": np.array([[0, 1, 2], [0, 3, 10]]), "capacity": 10}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            {"coords": GOOD["coords"][:, :1]},
            r"numbers \[n, N\+1, 2\] with n >= 1 and N\+1 >= 2, got float64 \[2, 1, 2\]",
        ),
        ({"demands": GOOD["demands"][:, 1:]}, r"demands must be numbers \[2, 3\], got int64 \[2, 2\]"),
        (
            {"demands": GOOD["demands"] / 30},
            r"whole numbers \(scale demands and capacity to .*; instance 0 breaks this",
        ),
        ({"demands": [[0, 1, 2], [0, np.inf, 3]]}, r"demands must lie within 0\.\.2147483648; instance 1 breaks"),
        ({"demands": GOOD["demands"] * [[1], [-1]]}, r"demands must lie within 0\.\.2147483648; instance 1 breaks"),
        ({"demands": GOOD["demands"] + 1}, "the depot, node 0, must have the demand 0; instance 0 breaks this"),
        ({"demands": GOOD["demands"] * 2}, "demands must be at most the capacity; instance 1 breaks this"),
        ({"capacity": [10, 9]}, "demands must be at most the capacity; instance 1 breaks this"),
        ({"capacity": [10, 10.5]}, "capacity must be whole numbers .*; instance 1 breaks this"),
        ({"capacity": 0, "demands": GOOD["demands"] * 0}, "capacity must be at least 1; instance 0 breaks this"),
    ],
)
def test_malformed_npz_are_refused(tmp_path, change, rule):
    np.savez(tmp_path / "bad.npz", **GOOD)
    assert CVRPSets().load(str(tmp_path / "bad.npz"))[0].kinds == ["", ""]
    np.savez(tmp_path / "bad.npz", **(GOOD | change))
    with pytest.raises(ValueError, match=rf"bad\.npz.*{rule}"):
        CVRPSets().load(str(tmp_path / "bad.npz"))


def test_routes_are_drawn_in_colours_of_their_own():
    routes = [[3, 1], [2], [4, 5, 6]]
    coords = torch.rand(2, 7, 2, generator=torch.Generator().manual_seed(0))
    instance = Instance(coords, torch.ones(2, 7), torch.full((2,), 3))
    figure = CVRPReports().render(instance, as_actions(routes).repeat(2, 1), ["a", "b"])
    assert [axes.get_title() for axes in figure.axes] == ["a", "b"]
    for axes, points in zip(figure.axes, coords, strict=True):
        assert len({line.get_color() for line in axes.lines}) == len(axes.lines) == 3
        for line, route in zip(axes.lines, routes, strict=True):
            stops = [a for a, b in pairwise([*line.get_xydata().tolist(), None]) if a != b]  # without repetitions
            assert np.allclose(stops, points[[0, *route, 0]])
