"""Solving from Python: the solutions of the command line, from files and arrays, and what a result can do."""

from __future__ import annotations

import copy
import json
import pickle
import re
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import evaluate
import gumbeldore
from gumbeldore import SearchPool, methods
from gumbeldore.evaluation import solve as module
from gumbeldore.evaluation.asked import BASELINES, METHODS
from problems.formats.cvrplib import read_cvrplib, read_solution
from problems.formats.jsplib import read_jssp
from problems.formats.tsplib import read_tour, read_tsplib
from problems.heuristics import Heuristic
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.bare import BARE
from tests.helpers.commands import ROOT, done
from tests.helpers.evaluations import DATA, Evaluation

FILES = {
    "tsp20": DATA / "ulysses16.tsp",
    "cvrp20": DATA / "cvrplib" / "A-n32-k5.vrp",
    "jssp": DATA / "jssp" / "ft06.txt",
}
POLICIES = {name: gumbeldore.load_policy(name) for name in FILES}
FAST = {"beam_width": 4, "num_rounds": 2}
MAP = {"instances": FILES["tsp20"]}
SHOP = {"times": [[3, 2], [4, 1]], "machines": [[0, 1], [1, 0]]}


def routing(customers, seed=0, capacity=30):
    random = np.random.default_rng(seed)
    demands = random.integers(1, 10, customers + 1)
    demands[0] = 0
    return {"coords": random.random((customers + 1, 2)), "demands": demands, "capacity": capacity}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, "gumbeldore") for name in FILES),
        ("jssp", "heuristic"),
        ("jssp", "solver"),
        ("jssp", "local_search"),
        *(pytest.param("tsp20", x, marks=pytest.mark.slow) for x in METHODS if x not in ("gumbeldore", "local_search")),
    ],
)
def test_the_solutions_are_those_of_the_command_line(name, method, tmp_path):
    """With the same defaults, too: only the beam width is given, to save time."""
    if method in BASELINES:
        pytest.importorskip("ortools")
    searches = method not in ("greedy", "reconstruct", "local_search", *BASELINES)
    narrow = {"beam_width": 4} if searches else {}
    result = gumbeldore.solve(POLICIES[name], FILES[name], method=method, **narrow)
    words = [f"checkpoint={name}", f"instances={FILES[name]}", f"method={method}", "workers=0", "out_dir=out"]
    words += ["search.beam_width=4"] if searches else []
    done(evaluate, *words, cwd=tmp_path)
    (row,) = Evaluation(tmp_path / "out", "").rows
    assert result.cost == float(row["cost"]) and result.num_solutions == int(row["solutions"])
    assert " ".join(map(str, POLICIES[name].problem.reports.solution(result.actions))) == row["solution"]
    known = (float(row["reference"]), row["kind"], float(row["gap"])) if row["reference"] else (None, "", None)
    assert (result.reference, result.kind, result.gap) == known


def test_a_result_speaks_the_problem_s_language():
    tour, routes, schedule = (gumbeldore.solve(POLICIES[name], FILES[name], **FAST) for name in FILES)
    assert sorted(tour.tour) == list(range(16)) and tour.tour[0] == 0
    assert sorted(customer for route in routes.routes for customer in route) == list(range(1, 32))
    shop = read_jssp(FILES["jssp"])[0]
    for job, operations in enumerate(schedule.schedule):
        assert [operation.machine for operation in operations] == (shop.machines[job] + shop.first).tolist()
        assert [operation.end - operation.start for operation in operations] == shop.times[job].tolist()
    assert schedule.cost == max(operation.end for operations in schedule.schedule for operation in operations)
    with pytest.raises(AttributeError, match=r"a result has no tour; the solution is \.routes"):
        _ = routes.tour
    for again in (copy.deepcopy(routes), pickle.loads(pickle.dumps(routes))):
        assert again.routes == routes.routes and repr(again) == repr(routes)
    assert "routes" in dir(routes)
    assert repr(tour).startswith("<ulysses16 (tsp, 16): cost ") and "to optimal" in repr(tour)


@pytest.mark.parametrize(("name", "suffix"), [("tsp20", ".tour"), ("cvrp20", ".sol"), ("jssp", ".csv")])
def test_a_result_is_saved_and_drawn(name, suffix, tmp_path):
    result = gumbeldore.solve(POLICIES[name], FILES[name], method="greedy")
    result.save(tmp_path / f"my{suffix}")
    result.save(tmp_path / "my.json")
    kept = json.loads((tmp_path / "my.json").read_text())
    assert kept["cost"] == result.cost and kept["gap"] == result.gap
    if name == "tsp20":
        assert read_tour(tmp_path / "my.tour") == result.tour == kept["tour"]
    elif name == "cvrp20":
        assert read_solution(tmp_path / "my.sol", 31)[0] == result.routes == kept["routes"]
    else:
        header, *rows = (tmp_path / "my.csv").read_text().splitlines()
        assert header == "job,operation,machine,start,end" and len(rows) == 36
    with pytest.raises(ValueError, match=f"is saved as {suffix} or .json"):
        result.save(tmp_path / "my.txt")
    with pytest.raises(FileExistsError, match="is there already"):
        result.save(tmp_path / f"my{suffix}")
    result.save(tmp_path / f"my{suffix}", overwrite=True)
    result.name = "a$^$b"  # as a file may be called
    result.plot().savefig(tmp_path / "my.png")
    assert (tmp_path / "my.png").stat().st_size > 1000
    assert result._repr_png_().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore:.*(is no reference|this reference is left out)")
def test_arrays_are_as_good_as_files():
    """Of any kind: NumPy's, torch's, lists. Costs are not rounded, so the files are taken without rounding."""
    nodes = read_tsplib(DATA / "berlin52.tsp").coords
    exact = gumbeldore.load_policy("tsp20", distances="exact")
    expected = gumbeldore.solve(exact, DATA / "berlin52.tsp", **FAST)
    for coords in (nodes, nodes.tolist(), torch.tensor(nodes)):
        found = gumbeldore.solve(POLICIES["tsp20"], coords=coords, **FAST)
        assert found.tour == expected.tour and found.cost == pytest.approx(expected.cost)
        assert found.gap is None and found.reference is None and found.name == "instance"
    read = read_cvrplib(FILES["cvrp20"])
    exact = gumbeldore.load_policy("cvrp20", distances="exact")
    arrays = {"coords": read.coords, "demands": read.demands, "capacity": read.capacity}
    assert gumbeldore.solve("cvrp20", arrays, **FAST).routes == gumbeldore.solve(exact, FILES["cvrp20"], **FAST).routes
    shop = read_jssp(FILES["jssp"])[0]
    found = gumbeldore.solve("jssp", times=shop.times.tolist(), machines=shop.machines.tolist(), **FAST)
    expected = gumbeldore.solve("jssp", FILES["jssp"], **FAST)
    assert found.schedule == expected.schedule
    assert (found.reference, found.kind) == (expected.reference, expected.kind) == (55, "optimal")  # by its numbers


def test_a_list_gives_a_list_in_its_order(tmp_path):
    """Instances of one size are searched together: alone, each is searched with other random numbers."""
    given = [routing(5, 0), str(FILES["cvrp20"]), routing(7, 1), routing(5, 2), FILES["cvrp20"]]
    found = gumbeldore.solve(POLICIES["cvrp20"], given, method="greedy")
    assert [len(result.actions) for result in found] == [5, 31, 7, 5, 31]
    names = ["instances[0]", "A-n32-k5", "instances[2]", "instances[3]", "A-n32-k5"]
    assert [result.name for result in found] == names
    for each, result in zip(given, found, strict=True):
        alone = gumbeldore.solve(POLICIES["cvrp20"], each, method="greedy")
        assert alone.cost == pytest.approx(result.cost) and alone.routes == result.routes
    (one,) = gumbeldore.solve(POLICIES["cvrp20"], [routing(5, 0)], method="greedy")
    assert one.routes == found[0].routes
    np.savez(tmp_path / "two.npz", coords=np.random.default_rng(0).random((2, 6, 2)))
    assert len(gumbeldore.solve("tsp20", tmp_path / "two.npz", method="greedy")) == 2
    assert len(gumbeldore.solve("tsp20", DATA, method="greedy")) == len(list(DATA.glob("*.tsp")))


@pytest.mark.parametrize("kind", [np.array, torch.tensor, list, lambda each: [torch.tensor(x) for x in each]])
def test_arrays_with_one_dimension_more_are_several_instances(kind):
    """As the same instances in a list; one capacity is that of all."""
    each = [routing(5, seed) for seed in range(3)]
    given = {name: kind(np.stack([x[name] for x in each])) for name in ("coords", "demands")}
    found = gumbeldore.solve(POLICIES["cvrp20"], **given, capacity=30, **FAST)
    expected = gumbeldore.solve(POLICIES["cvrp20"], each, **FAST)
    assert [(x.name, x.routes, x.cost) for x in found] == [(x.name, x.routes, x.cost) for x in expected]
    (alone,) = gumbeldore.solve(POLICIES["tsp20"], coords=np.random.default_rng(0).random((1, 5, 2)), method="greedy")
    assert sorted(alone.tour) == [0, 1, 2, 3, 4]


def test_without_a_policy_the_nearest_is_taken_for_each_instance():
    """In the order of what is given; what a solver or a heuristic finds needs no policy."""
    coords = [np.random.default_rng(size).random((size, 2)) for size in (50, 12, 45)]
    found = gumbeldore.solve(coords=[xy.tolist() for xy in coords], method="greedy")
    assert [Path(x.policy).parent.name for x in found] == ["tsp50", "tsp20", "tsp50"]
    for policy, xy, result in zip(("tsp50", "tsp20", "tsp50"), coords, found, strict=True):
        assert gumbeldore.solve(policy, coords=xy, method="greedy").cost == pytest.approx(result.cost)
    result = gumbeldore.solve(instances=FILES["cvrp20"], method="greedy")
    assert (result.name, Path(result.policy).parent.name) == ("A-n32-k5", "cvrp20")
    assert gumbeldore.solve(POLICIES["cvrp20"][:2], FILES["cvrp20"], method="greedy").policy == ""
    shops = [np.random.default_rng(0).integers(1, 9, (jobs, 3)) for jobs in (4, 60)]
    machines = [np.arange(3)[None].repeat(len(times), 0) for times in shops]
    rules = gumbeldore.solve(times=shops, machines=machines, method="heuristic")
    assert [x.policy for x in rules] == ["", ""] and [len(x.schedule) for x in rules] == [4, 60]
    expected = gumbeldore.solve("jssp", times=shops, machines=machines, method=Heuristic())
    assert [x.cost for x in rules] == [x.cost for x in expected]


def test_samples_of_own_instances_have_costs_in_their_units():
    problem, policy, *_ = POLICIES["cvrp20"]
    (mine,) = gumbeldore.load_instances(problem, FILES["cvrp20"])
    wor, draws = methods.WithoutReplacement(8, 1), torch.Generator().manual_seed(0)
    found = gumbeldore.search(problem, policy, mine.instances, wor, draws)
    costs = mine.costs(found.actions)
    assert costs.shape == (1, 8) and costs.min() > 784 and (costs == costs.round()).all() and len(costs.unique()) > 1
    for actions, cost in zip(found.actions[0], costs[0].tolist(), strict=True):
        routes = problem.reports.named_solution(mine.originals, 0, actions)["routes"]
        assert route_cost(routes) == cost
    small, large = gumbeldore.load_instances(problem, [routing(7), routing(5)])
    assert [*small.names, *large.names] == ["instances[0]", "instances[1]"]
    (first,) = gumbeldore.load_instances(POLICIES["tsp20"].problem, "kool/tsp20", num_instances=2)
    assert first.names == ["kool/tsp20/0", "kool/tsp20/1"]
    both = first.costs(torch.arange(1, 20).expand(2, 3, 19))
    assert torch.equal(both[1:], first.costs(torch.arange(1, 20).expand(1, 3, 19), first=1))
    assert both.shape == (2, 3) and both[0, 0] != both[1, 0]
    assert torch.equal(first.costs(torch.arange(1, 20).expand(2, 19)), both[:, 0])
    with pytest.raises(ValueError, match="give instances, or their arrays by name"):
        gumbeldore.load_instances(problem)
    with pytest.raises(ValueError, match="load_instances takes a problem, such as .* got 'cvrp20'"):
        gumbeldore.load_instances("cvrp20", FILES["cvrp20"])


def route_cost(routes):
    """By a plain loop over the file's coordinates, each distance rounded."""
    coords = read_cvrplib(FILES["cvrp20"]).coords
    legs = [pair for route in routes for pair in pairwise([0, *route, 0])]
    return sum(round(float(np.hypot(*(coords[a] - coords[b])))) for a, b in legs)


@pytest.mark.filterwarnings("ignore:the instances have distances of their own")
def test_a_matrix_is_enough():
    """The costs are its own, with direction: round the circle 0, 1, 2, 3 costs 4, the other way 20."""
    matrix = [[9, 1, 5, 5], [5, 9, 1, 5], [5, 5, 9, 1], [1, 5, 5, 9]]
    found = gumbeldore.solve(POLICIES["tsp20"], distances=matrix)
    assert found.tour == [0, 1, 2, 3] and found.cost == 4.0
    demands = np.array([0, 1, 1, 1])
    found = gumbeldore.solve(POLICIES["cvrp20"], distances=np.array(matrix) / 2, demands=demands, capacity=3)
    assert found.routes == [[1, 2, 3]] and found.cost == 2.0


def test_what_one_has_to_know_is_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="the policy sees a map; distances on it differ from theirs by"):
        gumbeldore.solve(POLICIES["tsp20"], distances=[[0, 1, 9], [1, 0, 1], [1, 9, 0]], method="greedy")
    with pytest.warns(UserWarning, match="1 solution is cheaper than the reference"):
        gumbeldore.solve(POLICIES["cvrp20"], **routing(5), cost=99.0, reference="optimal", method="greedy")
    shutil.copy(FILES["tsp20"], tmp_path)
    (tmp_path / "broken.tsp").write_text("no")
    with pytest.warns(UserWarning, match="^left out: broken.tsp: line 1: a header line is"):
        gumbeldore.solve(POLICIES["tsp20"], tmp_path, method="greedy")


def test_policies_of_chronological_experts_decide_several_at_a_time_by_default(tmp_path):
    shop = np.random.default_rng(0)
    arrays = {"times": shop.integers(1, 99, (10, 8)), "machines": shop.random((10, 8)).argsort(axis=1)}
    chronological = gumbeldore.load_policy("jssp")
    gumbeldore.save_policy(tmp_path / "other.pt", JSSP([[10, 8]], [[10, 8]]), chronological.policy)
    for policy, most in ((chronological, 4), (gumbeldore.load_policy(tmp_path / "other.pt"), 1)):
        found = gumbeldore.solve(policy, **arrays, method="greedy")
        assert found.cost == gumbeldore.solve(policy, **arrays, method=methods.Greedy(most)).cost
        assert found.cost != gumbeldore.solve(policy, **arrays, method=methods.Greedy(5 - most)).cost


def test_a_view_that_the_size_decides_is_said_and_can_be_switched_off():
    places = {"coords": np.random.default_rng(0).random((500, 2))}
    with pytest.warns(
        UserWarning, match=r"^of 500 nodes, the policy sees the 100 nearest .* \(problem.nearest=all: all\)"
    ):
        near = gumbeldore.solve("tsp20", **places, method="greedy")
    everything = gumbeldore.load_policy("tsp20", nearest="all")
    whole = gumbeldore.solve(everything, **places, method="greedy")  # a warning would be an error
    assert near.cost != whole.cost
    gumbeldore.solve(**places, method="heuristic")  # sees everything
    both = [{"coords": np.random.default_rng(0).random((nodes, 2))} for nodes in (20, 500)]
    gumbeldore.solve(instances=both, method="greedy")  # tsp_local solves the second, with its own view
    own = gumbeldore.load_policy("tsp20")
    with pytest.warns(UserWarning, match="^of 500 nodes, the policy sees"):
        pair = gumbeldore.solve((TSP(20), own.policy), **places, method="greedy")
    assert pair.cost == near.cost


def test_the_first_instances_of_a_set():
    found = gumbeldore.solve("tsp20", "kool/tsp20", num_instances=np.int64(3), method="greedy")
    assert [result.name for result in found] == ["kool/tsp20/0", "kool/tsp20/1", "kool/tsp20/2"]
    with pytest.raises(ValueError, match="between 1 and 10000 can be taken, not 0"):
        gumbeldore.solve("tsp20", "kool/tsp20", num_instances=0)


def test_a_known_cost_of_arrays_is_a_reference_and_their_solution_is_saved(tmp_path):
    found = gumbeldore.solve(POLICIES["cvrp20"], **routing(5), cost=2.0, method="greedy")
    assert found.reference == 2.0 and found.gap == found.cost / 2 - 1 and found.kind == "cost of the arrays"
    found.save(tmp_path / "my.sol")
    assert read_solution(tmp_path / "my.sol", 5)[0] == found.routes
    given = [{**routing(5, seed), "cost": 2.0, "reference": f"tool {seed}"} for seed in range(2)]
    assert [each.kind for each in gumbeldore.solve(POLICIES["cvrp20"], given, method="greedy")] == ["tool 0", "tool 1"]


def test_numbers_of_numpy_and_paths_with_a_home_are_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copy(POLICIES["tsp20"].path, tmp_path / "my.pt")
    shutil.copy(FILES["tsp20"], tmp_path / "my.tsp")
    numbers = {"beam_width": np.int64(4), "num_rounds": np.int32(2), "top_p_start": np.float32(0.5)}
    found = gumbeldore.solve("~/my.pt", "~/my.tsp", **numbers, seed=np.int64(0), device=torch.device("cpu"))
    expected = gumbeldore.solve(POLICIES["tsp20"], FILES["tsp20"], **FAST, top_p_start=0.5)
    assert torch.equal(found.actions, expected.actions)


@pytest.mark.parametrize("name", FILES)
def test_torchs_default_number_format_changes_nothing(name):
    def found():
        loaded = gumbeldore.load_policy(name)
        instances = loaded.problem.generate(2, torch.Generator().manual_seed(0))
        result = gumbeldore.solve(loaded, FILES[name], beam_width=2, num_rounds=2)
        return [*instances, result.actions, torch.tensor(result.cost, dtype=torch.float64)]

    expected = found()
    torch.set_default_dtype(torch.float64)
    try:
        others = found()
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(expected, others, strict=True))


def test_torchs_own_random_numbers_stay_where_they_are():
    before = torch.get_rng_state()
    gumbeldore.solve(gumbeldore.load_policy("tsp20"), FILES["tsp20"], method="sampling", beam_width=2)
    assert torch.equal(torch.get_rng_state(), before)


def test_seed_and_settings_matter():
    def solved(**settings):
        return gumbeldore.solve(POLICIES["cvrp20"], **{**routing(30), **FAST, "seed": 0, **settings})

    assert torch.equal(solved().actions, solved().actions)
    assert not torch.equal(solved().actions, solved(seed=1).actions)
    assert solved(beam_width=8, num_rounds=3).num_solutions == 24
    assert not torch.equal(solved(top_p_start=0.1).actions, solved().actions)
    own = methods.Gumbeldore(4, 2, POLICIES["cvrp20"].config["search"]["step_size"], temperature="auto")
    assert torch.equal(solved(method=own, beam_width=None, num_rounds=None).actions, solved().actions)


def test_the_time_limit_includes_the_pool(monkeypatch):
    """Of two instances: what has passed before the search is taken from both."""

    class Slow(SearchPool):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            time.sleep(0.3)

    def noted(pool, instance_set, config, seed, start):
        limits.append(config.time_limit)
        return whole(pool, instance_set, config, seed, start=start)

    limits, whole = [], module.solve_set
    monkeypatch.setattr(module, "SearchPool", Slow)
    monkeypatch.setattr(module, "solve_set", noted)
    pair = [routing(5, 0), routing(5, 1)]
    gumbeldore.solve(POLICIES["cvrp20"], pair, time_limit=1.0)
    with pytest.warns(UserWarning, match="sufficed for the greedy solution alone of 2 instances"):
        found = gumbeldore.solve(POLICIES["cvrp20"], pair, method=methods.WithoutReplacement(4, 1), time_limit=0.1)
    assert limits[0] <= 1.0 - 0.3 / 2 and limits[1] == module.LEAST
    assert [result.num_solutions for result in found] == [1, 1]  # greedy ones


@pytest.mark.parametrize("method", ["gumbeldore", "reconstruct"])
def test_a_limit_that_suffices_for_the_greedy_solution_alone_is_a_warning(method, tmp_path):
    rule = "the time limit sufficed for the greedy solution alone of 1 instance, .* s for each; better ones need more"
    with pytest.warns(UserWarning, match=f"^solve: {rule}"):
        gumbeldore.solve(POLICIES["cvrp20"], FILES["cvrp20"], method=method, time_limit=1e-6)
    words = ["checkpoint=cvrp20", f"instances={FILES['cvrp20']}", f"method=[greedy,{method}]", "search.time_limit=1e-6"]
    said = done(evaluate, *words, "workers=0", "out_dir=out", cwd=tmp_path).stdout
    assert re.search(f"warning: {method}: {rule}", said) and said.count("warning") == 1


@pytest.mark.parametrize(
    ("policy", "given", "message"),
    [
        ("tsp21", MAP, "there is no checkpoint tsp21; policies that are shipped: "),
        ("my.tsp", {}, r"^give instances, .* got neither, which do not come first: solve\('tsp50', 'my.tsp'\), or "),
        ("tsp20", {"instances": "x.tsp", "coords": [[0, 0]] * 3}, "^give instances, or .*; got instances and coords$"),
        ("tsp20", {"instances": []}, "instances is an empty list"),
        (POLICIES["tsp20"].policy, {"coords": [[0, 0]] * 3}, "a policy must be what load_policy returns, .* got BQ"),
        ("tsp20", {"instances": np.zeros((5, 2))}, "instances must be a path, or arrays by name, .* got ndarray"),
        ("tsp20", {"instances": [FILES["tsp20"], [[0, 0]]]}, r"^instances\[1\] must be a path, or arrays .* got list"),
        ("tsp20", {"coords": [[0, 0], [1], [2, 2]]}, "^instance: coords is no array: "),
        ("tsp20", {"coords": np.ma.masked_less(np.eye(3, 2), 1)}, "^instance: coords has masked values"),
        ("tsp20", {"coords": np.zeros((1, 2, 3, 2))}, r"^instance \(n = 1\): coords must be .* \[1, 1, 2, 3, 2\]$"),
        (
            "tsp20",
            {"coords": [np.eye(3, 2), np.eye(3, 2) * np.nan]},
            r"^instances\[1\] \(n = 1\): coordinates must lie",
        ),
        ("cvrp20", {**routing(5), "coords": np.zeros((2, 6, 2))}, "demands must be of 2 instances, as coords .* got 6"),
        ("tsp20", {"instances": FILES["cvrp20"]}, r"line 3: TYPE must be .*\(the policy of .* is for tsp\)"),
        (
            "jssp",
            {**SHOP, "release": [[0, 3], [0, 6]]},
            r"^instance \(n = 1\): release must be whole numbers \[1, 2\] \(one for each job\), got int64 \[1, 2, 2\]",
        ),
        ("jssp", {**SHOP, "machine_release": 5}, r"machine_release must be whole .* \(one for each machine\), got"),
        ("jssp", {**SHOP, "due": [3, None]}, "^instance: due must consist of numbers, got NoneType$"),
        (
            "jssp",
            {**SHOP, "release": [3, 10**400]},
            "^instance: release must consist of numbers, got one beyond 64 bits$",
        ),
        ("tsp20", {"coords": [[0, 0], [1, 0], [1, 10**400]]}, "^instance: coords must .* got one beyond 64 bits$"),
        ("cvrp20", {**routing(5), "capacity": None}, "^instance: capacity must consist of numbers, got NoneType$"),
        ("cvrp20", {"coords": [[0, 0]] * 4}, r"instance \(n = 1\) must hold capacity, demands and coords"),
        ("cvrp20", {"instances": [routing(5), routing(5, capacity=3)]}, r"^instances\[1\] .*: demands must be at most"),
        ("tsp20", {"instances": [DATA]}, r"instances\[0\]: .* holds \d+ instances; give it alone"),
        (
            "tsp20",
            {**MAP, "method": "solvers"},
            "method must be one of greedy, sampling, .*, local_search, solver, heuristic or a Method",
        ),
        ("tsp20", {**MAP, "method": "heuristic", "time_limit": 1}, "has no time_limit"),
        (
            "tsp20",
            {**MAP, "method": Heuristic(), "time_limit": 1},
            "time_limit must be part of the Heuristic, which is the whole method",
        ),
        (None, {"instances": "nowhere.tsp"}, "instances=nowhere.tsp is neither a file or folder nor a standard set"),
        (
            None,
            {"x": [[0, 0]] * 2},
            "it is not clear which problem what is given is of .* in Python the first argument",
        ),
        (None, {"instances": [FILES["tsp20"], FILES["cvrp20"]]}, "it is not clear which problem what is given is of"),
        (
            "tsp20",
            {"instances": [FILES["tsp20"]], "num_instances": 1},
            "num_instances is of a source that holds several",
        ),
        ("tsp20", {"instances": "kool/tsp20", "num_instances": 1.5}, "num_instances must be an integer, got"),
        ("tsp20", {**MAP, "method": "greedy", "beam_width": 2}, "beam_width has no effect on"),
        (
            "tsp20",
            {**MAP, "method": methods.Sampling(2, 1), "temperature": 3.0},
            "temperature must be part of the Sampling",
        ),
        ("tsp20", {**MAP, "device": "mps"}, "device=mps cannot be used"),
        ("tsp20", {**MAP, "seed": -1}, "seed must be an integer"),
    ],
)
def test_wrong_input_is_refused_before_any_search(policy, given, message, monkeypatch):
    monkeypatch.setattr(module, "solve_set", None)
    with pytest.raises(ValueError, match=message):
        gumbeldore.solve(policy, **given)


@pytest.mark.parametrize(("name", "lacking"), [("models", "models.bq_tsp"), ("problems", "problems.tsp")])
def test_a_module_of_the_user_that_hides_one_of_ours_is_named(name, lacking, tmp_path, monkeypatch):
    (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, lacking)
    rule = rf"{lacking}\.\w+ was looked for in {tmp_path / name}.py, which hides the package of this name"
    with pytest.raises(ValueError, match=f"{rule} that gumbeldore needs: rename yours"):
        gumbeldore.load_policy("tsp20")


def test_it_needs_neither_hydra_nor_ray_nor_a_terminal_nor_the_checkout(tmp_path):
    blocked = BARE.split("import copy")[0]
    code = f"{blocked}\nimport gumbeldore\nprint(gumbeldore.solve('tsp20', coords=[[0, 0], [0, 1], [1, 1]]).cost)"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) == pytest.approx(2 + 2**0.5) and not result.stderr
