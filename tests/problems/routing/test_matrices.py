"""Distances of the user's own, in files and arrays: costs with direction, what is refused, what solvers ask of them."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import numpy as np
import pytest
import torch

from gumbeldore.instance_set import WrongProblemError
from problems.common.fingerprint import fingerprint
from problems.cvrp import CVRP
from problems.cvrp.instances import of_routes
from problems.cvrp.sets import CVRPSets
from problems.formats import npz
from problems.formats.cvrplib import read_cvrplib
from problems.formats.matrices import FORMATS
from problems.formats.tsplib import read_tsplib
from problems.routing import best_known
from problems.routing.best_known import Published
from problems.routing.distances import distances_between, is_symmetric, is_whole, whole_distances
from problems.tsp import TSP
from problems.tsp.sets import TSPSets
from tests.helpers.instance_files import write_tour
from tests.helpers.matrices import (
    ASYMMETRIC,
    DEMANDS,
    ENTRIES,
    SYMMETRIC,
    cost_of,
    length,
    loads,
    random_matrix,
    write_matrix,
)

# ---- files


@pytest.mark.parametrize("per_line", [1, 4, 1000])
@pytest.mark.parametrize("form", FORMATS)
def test_all_formats_read_the_same_instance(tmp_path, form, per_line):
    path = write_matrix(tmp_path / "x.tsp", SYMMETRIC, form, per_line=per_line)
    metric = read_tsplib(path).metric
    assert torch.equal(distances_between(None, metric), torch.from_numpy(random_matrix(6, symmetric=True, diagonal=0)))
    assert set(ENTRIES) == set(FORMATS)


def test_a_tour_and_its_reverse_cost_what_their_directions_say(tmp_path):
    for symmetric, matrix in ((False, ASYMMETRIC), (True, SYMMETRIC)):
        write_matrix(tmp_path / "x.atsp", matrix, kind="ATSP")
        (instance_set,) = TSPSets().load(str(tmp_path / "x.atsp"))
        there, back = [3, 1, 5, 2, 4], [4, 2, 5, 1, 3]
        costs = [cost_of(instance_set, tour) for tour in (there, back)]
        assert costs == [length(matrix, [0, *there]), length(matrix, [0, *back])]
        assert (costs[0] == costs[1]) == symmetric


def test_instances_of_all_kinds_are_measured_together(tmp_path):
    """In any order, and several times."""
    for name, form, matrix in (("a", "FULL_MATRIX", ASYMMETRIC), ("c", "LOWER_ROW", SYMMETRIC)):
        write_matrix(tmp_path / f"{name}.tsp", matrix, form)
    points = np.array([[0, 0], [30, 40], [60, 80], [0, 9], [5, 5], [7, 1]])
    nodes = "".join(f"{i} {x} {y}\n" for i, (x, y) in enumerate(points, start=1))
    header = "TYPE: TSP\nDIMENSION: 6\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n"
    for name in "bd":
        (tmp_path / f"{name}.tsp").write_text(header + nodes)
    (instance_set,) = TSPSets().load(str(tmp_path))
    plane = np.floor(np.linalg.norm(points[:, None] - points[None], axis=2) + 0.5)
    tours = list(permutations(range(1, 6)))[:60]
    index = [place % 4 for place in range(60)]
    costs = instance_set.true_cost(torch.tensor(index), torch.tensor(tours))
    each = [ASYMMETRIC, plane, SYMMETRIC, plane]
    assert costs.tolist() == [length(each[i], [0, *tour]) for i, tour in zip(index, tours, strict=True)]
    some = instance_set.part(torch.tensor([2, 1]))
    assert cost_of(some, tours[0]) == length(SYMMETRIC, [0, *tours[0]])


def test_atsp_files_are_taken_from_folders(tmp_path):
    write_matrix(tmp_path / "a.atsp", ASYMMETRIC, kind="ATSP")
    write_matrix(tmp_path / "b.ATSP", random_matrix(4), kind="ATSP")
    write_matrix(tmp_path / "c.tsp", SYMMETRIC)
    assert [instance_set.names for instance_set in TSPSets().load(str(tmp_path))] == [["b"], ["a", "c"]]
    text = (tmp_path / "a.atsp").read_text()
    (tmp_path / "a.atsp").write_text(text.replace("NAME: a", "NAME: mine.atsp"))
    assert TSPSets().load(str(tmp_path / "a.atsp"))[0].names == ["mine"]
    with pytest.raises(WrongProblemError):
        CVRPSets().load(str(tmp_path / "a.atsp"))


def test_routes_cost_what_the_matrix_says_from_any_depot(tmp_path):
    """The depot comes first; a walk repeats nodes where no depot lies between."""
    for depot, kind in product((1, 4), ("CVRP", "ACVRP")):
        demands = [*DEMANDS[1:depot], 0, *DEMANDS[depot:]]
        path = write_matrix(tmp_path / "x.vrp", ASYMMETRIC, kind=kind, more=loads(demands, depot))
        (instance_set,) = CVRPSets().load(str(path))
        order = [depot - 1, *(node for node in range(6) if node != depot - 1)]
        matrix = ASYMMETRIC[order][:, order]
        for routes in ([[1, 2], [3, 4], [5]], [[2, 1], [4, 3], [5]]):
            assert cost_of(instance_set, of_routes(routes, 5)) == sum(length(matrix, [0, *route]) for route in routes)


def test_the_map_is_that_of_the_file_or_made(tmp_path):
    points = "".join(f"{i} {i * i} {7 * i % 5}\n" for i in range(1, 7))
    expected = [[i * i, 7 * i % 5] for i in range(1, 7)]
    for section in ("NODE_COORD_SECTION", "DISPLAY_DATA_SECTION"):
        path = write_matrix(tmp_path / "x.tsp", SYMMETRIC, more=f"{section}\n{points}")
        assert read_tsplib(path).coords.tolist() == expected
        path = write_matrix(tmp_path / "x.vrp", SYMMETRIC, kind="CVRP", more=f"{section}\n{points}{loads(DEMANDS)}")
        assert read_cvrplib(path).coords.tolist() == expected
    made = TSPSets().load(str(write_matrix(tmp_path / "x.tsp", SYMMETRIC)))[0]
    assert made.originals.coords.isfinite().all() and made.originals.coords.std() > 0
    assert made.instances.coords.min() == 0 and made.instances.coords.max() == 1


MALFORMED = {  # what is replaced in a file of six nodes -> by what, the line named, the rule
    "no format": ("EDGE_WEIGHT_FORMAT: FULL_MATRIX\n", "", None, "the header lacks EDGE_WEIGHT_FORMAT"),
    "another format": ("FULL_MATRIX", "FUNCTION", 5, "EDGE_WEIGHT_FORMAT must be one of FULL_MATRIX, .*got 'FUNCTION'"),
    "a number too many": ("EOF", "1\nEOF", 3, r"must have 36 numbers \(FULL_MATRIX, DIMENSION 6\), it has 37"),
    "numbers of another format": ("FULL_MATRIX", "LOWER_ROW", 3, r"must have 15 numbers .*, it has 36"),
    "a forged dimension": ("DIMENSION: 6", "DIMENSION: 5000", 3, "must have 25000000 numbers .*, it has 36"),
    "a dimension too small": ("DIMENSION: 6", "DIMENSION: 5", 3, "must have 25 numbers .*, it has 36"),
    "too many nodes": ("DIMENSION: 6", "DIMENSION: 5001", 3, r"DIMENSION must lie within 2\.\.5000, got 5001"),
    "negative": ("EDGE_WEIGHT_SECTION\n9999 48", "EDGE_WEIGHT_SECTION\n9999 -1", 7, r"within 0\.\.1e\+12, got -1"),
    "nan": ("EDGE_WEIGHT_SECTION\n9999 48", "EDGE_WEIGHT_SECTION\n9999 NaN", 7, r"within 0\.\.1e\+12, got nan"),
    "a word": ("EDGE_WEIGHT_SECTION\n9999 48", "EDGE_WEIGHT_SECTION\n9999 far", 7, "must be a number, got 'far'"),
    "no matrix": ("EDGE_WEIGHT_SECTION", "NODE_COORD_SECTION", None, "there is no EDGE_WEIGHT_SECTION"),
    "a matrix without its type": ("EXPLICIT", "EUC_2D", 6, "sections: NODE_COORD_SECTION, .*got 'EDGE_WEIGHT_S"),
    "half a map": ("EOF", "NODE_COORD_SECTION\n1 0 0\nEOF", 3, "DIMENSION is 6, but NODE_COORD_SECTION has 1 nodes"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_matrices_are_refused_with_file_line_and_rule(tmp_path, case):
    old, new, line, rule = MALFORMED[case]
    path = write_matrix(tmp_path / "bad.tsp", ASYMMETRIC)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=rf"bad\.tsp{'' if line is None else f', line {line}'}: .*{rule}"):
        read_tsplib(path)


def test_the_diagonal_is_ignored(tmp_path):
    for diagonal in (0, 1e8, -1, np.nan, np.inf, 1e300):
        matrix = random_matrix(6, diagonal=diagonal)
        np.savez(tmp_path / "x.npz", distances=matrix[None])
        for path in (write_matrix(tmp_path / "x.tsp", matrix), tmp_path / "x.npz"):
            (instance_set,) = TSPSets().load(str(path))
            assert cost_of(instance_set, [1, 2, 3, 4, 5]) == length(ASYMMETRIC, [0, 1, 2, 3, 4, 5])
            assert torch.equal(instance_set.instances.coords, TSPSets().load(str(path))[0].instances.coords)
            whole = whole_distances(instance_set.originals.coords[0], instance_set.originals.metrics[0])
            assert whole.whole.tolist() == random_matrix(6, diagonal=0).tolist() and whole.scale == 1


def test_a_convention_of_rounding_is_refused(tmp_path):
    file = write_matrix(tmp_path / "x.tsp", ASYMMETRIC)
    np.savez(tmp_path / "x.npz", distances=ASYMMETRIC[None])
    for distances in ("rounded", "exact"):
        with pytest.raises(ValueError, match=rf"x\.tsp, line 4: problem.distances={distances} is for coordinates"):
            TSP(20, distances=distances).load(str(file))
        with pytest.raises(ValueError, match=rf"(x\.npz.*)?problem.distances={distances} is for .*distances"):
            TSP(20, distances=distances).load(str(tmp_path / "x.npz"))
    with pytest.raises(ValueError, match=r"x\.vrp, line 4: problem.distances=exact is for coordinates, not for EXPL"):
        path = write_matrix(tmp_path / "x.vrp", SYMMETRIC, kind="CVRP", more=loads(DEMANDS))
        CVRP(20, [30, 30], distances="exact").load(str(path))


# ---- what is known of the solutions


def test_published_costs_are_recognised_in_any_format_that_holds_the_matrix(tmp_path, monkeypatch):
    listed = np.array([SYMMETRIC[entry] for entry in ENTRIES["LOWER_DIAG_ROW"](6)])
    known = {(fingerprint(listed), "LOWER_DIAG_ROW"): Published(123.0, "optimal", "TSPLIB", "EXPLICIT")}
    monkeypatch.setattr(best_known, "_tsplib", lambda: known)

    def kinds(path):
        return TSPSets().load(str(path))[0].kinds

    for form in FORMATS:
        whole = "DIAG" in form or form == "FULL_MATRIX"  # the others leave out the diagonal
        assert kinds(write_matrix(tmp_path / "x.tsp", SYMMETRIC, form)) == ["optimal (TSPLIB)" if whole else ""]
    np.savez(tmp_path / "one.npz", distances=SYMMETRIC[None])
    assert TSPSets().load(str(tmp_path / "one.npz"))[0].references.tolist() == [123]
    half = SYMMETRIC + np.triu(np.ones((6, 6)), 1)  # one of its triangles is known
    assert kinds(write_matrix(tmp_path / "x.tsp", half)) == [""]
    path = write_matrix(tmp_path / "x.tsp", SYMMETRIC, "LOWER_DIAG_ROW")
    text = path.read_text()
    for form, nodes in (("UPPER_DIAG_ROW", 6), ("LOWER_DIAG_COL", 6), ("LOWER_ROW", 7)):  # the same numbers
        path.write_text(text.replace("LOWER_DIAG_ROW", form).replace("DIMENSION: 6", f"DIMENSION: {nodes}"))
        assert kinds(path) == [""]


def test_the_tables_know_the_formats_of_all_matrices():
    for table in (best_known._tsplib(), best_known._cvrplib()):
        for (_, form), published in table.items():
            assert form in FORMATS if published.metric == "EXPLICIT" else form == ""


def test_solutions_beside_files_are_references(tmp_path):
    write_matrix(tmp_path / "x.atsp", ASYMMETRIC, kind="ATSP")
    write_tour(tmp_path / "x.opt.tour", [2, 5, 0, 1, 4, 3])
    (instance_set,) = TSPSets().load(str(tmp_path / "x.atsp"))
    assert instance_set.references.tolist() == [length(ASYMMETRIC, [2, 5, 0, 1, 4, 3])]
    assert instance_set.kinds == ["optimal (.opt.tour)"] and cost_of(instance_set, instance_set.solutions[0]) == length(
        ASYMMETRIC, [0, 1, 4, 3, 2, 5]
    )

    write_matrix(tmp_path / "y.vrp", ASYMMETRIC, kind="ACVRP", more=loads(DEMANDS))
    cost = length(ASYMMETRIC, [0, 1, 2]) + length(ASYMMETRIC, [0, 3, 4]) + length(ASYMMETRIC, [0, 5])
    for stated, kind in ((cost, "solution file (.sol)"), (cost + 1, "")):
        (tmp_path / "y.sol").write_text(f"Route #1: 1 2\nRoute #2: 3 4\nRoute #3: 5\nCost {stated:.0f}\n")
        (instance_set,) = CVRPSets().load(str(tmp_path / "y.vrp"))
        assert instance_set.kinds == [kind]
    (warning,) = instance_set.warnings
    assert warning.endswith(f"under EXPLICIT, the file says {cost + 1:.0f}; this reference is left out")


# ---- arrays


def test_arrays_of_distances_with_and_without_a_map(tmp_path):
    distances = np.stack([ASYMMETRIC, SYMMETRIC]) / 3
    coords = np.random.RandomState(0).rand(2, 6, 2)
    for arrays in ({"distances": distances}, {"distances": distances, "coords": coords}):
        np.savez(tmp_path / "mine.npz", **arrays, cost=[5.0, np.nan])
        (instance_set,) = TSPSets().load(str(tmp_path / "mine.npz"))
        for i in range(2):
            assert cost_of(instance_set, [5, 3, 1, 2, 4], i) == pytest.approx(length(distances[i], [0, 5, 3, 1, 2, 4]))
        assert instance_set.names == ["mine/0", "mine/1"] and instance_set.references[0] == 5
        assert torch.equal(instance_set.originals.coords, torch.from_numpy(coords)) == ("coords" in arrays)
        assert len(TSPSets().load(str(tmp_path / "mine.npz"), 1)[0].originals.metrics) == 1
        np.savez(tmp_path / "routes.npz", **arrays, demands=[DEMANDS] * 2, capacity=10)
        (instance_set,) = CVRPSets().load(str(tmp_path / "routes.npz"))
        actions = of_routes([[2, 1], [4, 3], [5]], 5)
        expected = [sum(length(each, [0, *route]) for route in ([2, 1], [4, 3], [5])) for each in distances]
        assert [cost_of(instance_set, actions, i) for i in range(2)] == pytest.approx(expected)


def test_whole_and_narrow_numbers_are_distances(tmp_path):
    for kind in (np.int16, np.uint8, np.float32):
        np.savez(tmp_path / "x.npz", distances=random_matrix(6, diagonal=0)[None].astype(kind))
        (instance_set,) = TSPSets().load(str(tmp_path / "x.npz"))
        assert cost_of(instance_set, [1, 2, 3, 4, 5]) == length(ASYMMETRIC, [0, 1, 2, 3, 4, 5])


GOOD = np.stack([ASYMMETRIC, SYMMETRIC])
WRONG = {
    "negative": (GOOD - 50 * np.eye(6)[[1, 0, 2, 3, 4, 5]], "instance 0 from node 0 to node 1 is -2"),
    "nan": (np.where(np.arange(72).reshape(2, 6, 6) == 38, np.nan, GOOD), "instance 1 from node 0 to node 2 is nan"),
    "infinite in few bits": (
        np.where(np.arange(72).reshape(2, 6, 6) == 6, np.inf, GOOD).astype(np.float16),
        "instance 0 from node 1 to node 0 is inf",
    ),
    "one matrix": (ASYMMETRIC, r"must be numbers \[n, N, N\] .*, got float64 \[6, 6\]"),
    "two nodes": (GOOD[:, :2, :2], r"with n >= 1 and N within 3\.\.5000, got float64 \[2, 2, 2\]"),
    "no instance": (GOOD[:0], r"got float64 \[0, 6, 6\]"),
    "truth values": (GOOD > 50, r"got bool \[2, 6, 6\]"),
    "too many nodes": (np.zeros((1, 5001, 5001), dtype=np.uint8), r"N within 3\.\.5000, got uint8 \[1, 5001, 5001\]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_malformed_arrays_are_refused(tmp_path, case):
    distances, rule = WRONG[case]
    np.savez(tmp_path / "bad.npz", distances=distances)
    with pytest.raises(ValueError, match=rf"bad\.npz: distances .*{rule}"):
        TSPSets().load(str(tmp_path / "bad.npz"))
    with pytest.raises(ValueError, match=f"^what I made: distances .*{rule}"):
        TSPSets().from_arrays({"distances": distances}, "what I made")


def test_a_map_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"^x: .*same n and N, got \[2, 5, 2\] and \[2, 6, 6\]"):
        TSPSets().from_arrays({"distances": GOOD, "coords": np.ones((2, 5, 2))}, "x")


def test_arrays_that_are_too_large_are_refused(tmp_path, monkeypatch):
    np.savez(tmp_path / "large.npz", distances=GOOD)
    monkeypatch.setattr(npz, "MOST_NUMBERS", 71)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=r"large\.npz: distances \[2, 6, 6\] has more than 71 numbers"):
        TSPSets().load(str(tmp_path / "large.npz"))


def test_arrays_of_another_problem_are_recognised(tmp_path):
    np.savez(tmp_path / "x.npz", distances=GOOD)
    with pytest.raises(WrongProblemError, match="must hold capacity, demands and coords or distances"):
        CVRPSets().load(str(tmp_path / "x.npz"))
    np.savez(tmp_path / "x.npz", distances=GOOD, demands=[DEMANDS] * 2, capacity=10)
    with pytest.raises(WrongProblemError):
        TSPSets().load(str(tmp_path / "x.npz"))


def test_properties_of_metrics():
    matrix = {name: torch.from_numpy(x) for name, x in (("there", ASYMMETRIC), ("both", SYMMETRIC))}
    assert is_symmetric(matrix["both"]) and not is_symmetric(matrix["there"]) and is_symmetric("GEO")
    assert is_whole(matrix["there"]) and not is_whole(matrix["there"] / 2) and is_whole("ATT")
    assert not is_whole("EXACT_2D")
    whole, scale, error, _ = whole_distances(None, matrix["there"] / 7)
    expected = random_matrix(6, diagonal=0) / 7
    assert np.abs(whole / scale - expected).max() <= error * 1.000001 and whole.max() == 10_000_000
    assert whole[1, 0] != whole[0, 1]


@pytest.mark.parametrize("unit", [1.0, 0.3])
def test_whole_numbers_for_forbidden_arcs_keep_all_solutions_in_order(unit):
    """Tours, and routes with the depot anywhere among the nodes, of a matrix with many forbidden arcs."""
    matrix = torch.from_numpy(random_matrix(6, diagonal=0)) * unit
    forbidden = torch.rand(6, 6, generator=torch.Generator().manual_seed(1)) < 0.4
    matrix[forbidden.fill_diagonal_(False)] = 1e12
    whole, *_ = whole_distances(None, matrix)
    walks = [(0, *rest, 0) for rest in permutations(range(1, 6))]
    walks += [(*walk[:place], 0, *walk[place:]) for walk in walks for place in range(2, 6)]
    costs = [[sum(each[a, b].item() for a, b in pairwise(walk)) for walk in walks] for each in (matrix, whole)]
    order = sorted(range(len(walks)), key=lambda place: costs[0][place])
    assert len({round(cost / 1e12) for cost in costs[0]}) > 3 and whole.max() < 1e11
    assert all(costs[0][b] - costs[0][a] < 0.01 or costs[1][a] < costs[1][b] for a, b in pairwise(order))


def test_distances_too_large_for_whole_numbers_are_scaled():
    matrix = torch.from_numpy(random_matrix(6, diagonal=0))
    for large in (matrix * 1e10, matrix * 1e10 + 0.5):
        whole, scale, error, _ = whole_distances(None, large)
        assert whole.max() == 10_000_000
        assert np.abs(whole / scale - large.fill_diagonal_(0).numpy()).max() <= error * 1.000001
