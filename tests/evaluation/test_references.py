"""References of an evaluation that do not come with the instances: a table of the user's, or a solver's answers."""

from __future__ import annotations

import json
import math
import os
from itertools import permutations

import numpy as np
import pytest
import torch

import evaluate
from gumbeldore import solve
from gumbeldore.evaluation.parts import SolvedSet
from gumbeldore.evaluation.references import proven, with_lower_bounds
from gumbeldore.runtime.files import write_table
from problems.jssp import JSSP
from problems.solvers import SolverError
from problems.solvers.backends import BACKENDS
from tests.helpers.commands import refused, typed
from tests.helpers.evaluations import DATA, evaluated, instance_set_of
from tests.helpers.schedules import plain_makespan

OPTIMAL = "optimal (CP-SAT)"

# ---- tables


def table(tmp_path, text):
    file = tmp_path / "table.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return f"references={file}"


def by_name(found, method="greedy"):
    return {row["instance"]: row for row in found.of(method)}


def test_a_table_replaces_references_and_the_others_stay(policies, tmp_path):
    words = [f"instances={DATA}/jssp", table(tmp_path, "kind, name, cost\nmine,ft06,50\n,la01,600.5\nmine,other,1\n")]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    rows = by_name(found)
    assert (rows["ft06"]["reference"], rows["ft06"]["kind"]) == ("50.0", "mine")
    assert (rows["la01"]["reference"], rows["la01"]["kind"]) == ("600.5", "table.csv")
    assert rows["ft10"]["reference"] == "930.0" and rows["ft10"]["kind"] not in ("", "mine", "table.csv")
    for row in rows.values():
        assert float(row["gap"]) == pytest.approx(float(row["cost"]) / float(row["reference"]) - 1)
    mean = sum(float(row["gap"]) for row in rows.values()) / 4
    assert found.methods["greedy"]["mean_gap"] == pytest.approx(mean)
    assert "warning: " in found.output and "table.csv: 1 of 3 names are of no instance here: other" in found.output
    assert "mine (1)" in found.methods["greedy"]["reference"] and "table.csv (1)" in found.output


def test_blanks_around_names_do_no_harm(policies, tmp_path):
    text = "name , cost , kind \nft06 , 50 , mine \n la01,600,\n"
    found = evaluated(policies / "jssp.pt", tmp_path, f"instances={DATA}/jssp", table(tmp_path, text))
    rows = by_name(found)
    assert (rows["ft06"]["reference"], rows["ft06"]["kind"]) == ("50.0", "mine")
    assert (rows["la01"]["reference"], rows["la01"]["kind"]) == ("600.0", "table.csv")
    assert "are of no instance" not in found.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name;cost\nft06;55\n", "table.csv, line 1: the columns must be name, cost and, if wanted, kind"),
        ("", "table.csv, line 1: the columns must be"),
        ("name,cost\nft06,55\nft10\n", "table.csv, line 3: a row has as many values as there are columns, 2"),
        ("name,cost\nft06,55,optimal\n", "table.csv, line 2: a row has as many values as there are columns, 2"),
        ("name,cost\nft06,55\n\nft06 ,56\n", "table.csv, line 4: ft06  is given twice"),
        ("name,cost\nft06,nan\n", "table.csv, line 2: a cost must be a number, got 'nan'"),
        (b"name,cost\nft06,\xff\xfe\n", "table.csv is not a text"),
        ("name,cost\nft07,55\n", "table.csv names none of the instances; the first is ft06"),
    ],
)
def test_wrong_tables_are_refused(policies, tmp_path, text, message):
    words = [f"checkpoint={policies}/jssp.pt", f"instances={DATA}/jssp/ft06.txt", table(tmp_path, text), "workers=0"]
    assert message in refused(evaluate, *words, cwd=tmp_path)


def test_no_gap_over_all_where_references_are_missing(policies, tmp_path):
    coords = np.random.default_rng(0).random((3, 8, 2))
    np.savez(tmp_path / "three.npz", coords=coords, cost=np.array([2.0, np.nan, 2.5]), reference="mine")
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={tmp_path / 'three.npz'}")
    assert "2 of 3 have a reference, so no gap over all" in found.output and "%" not in found.output
    assert found.methods["greedy"]["mean_gap"] is None and found.methods["greedy"]["reference"] == "mine"
    assert [row["kind"] for row in found.rows] == ["mine", "", "mine"]
    assert found.rows[1]["reference"] == found.rows[1]["gap"] == ""
    assert float(found.rows[2]["gap"]) == pytest.approx(float(found.rows[2]["cost"]) / 2.5 - 1)


def test_names_of_results_are_those_of_a_table_also_where_they_are_changed(policies, tmp_path):
    """A formula has an apostrophe in front, and bytes that are no UTF-8 are words; results.csv is read as a table."""
    folder = tmp_path / "set"
    folder.mkdir()
    text = (DATA / "berlin52.tsp").read_text()
    for file, name in (("a.tsp", '=HYPERLINK("x")'), (os.fsdecode(b"caf\xe9.tsp"), "")):
        (folder / file).write_text(text.replace("NAME: berlin52", f"NAME: {name}"))
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    assert [row["instance"] for row in found.rows] == ['\'=HYPERLINK("x")', "caf\\udce9"]
    assert (found.folder / "report.html").is_file()
    rows = [["name", "cost"], *([row["instance"], place] for place, row in enumerate(found.rows, start=1))]
    write_table(tmp_path / "mine.csv", rows)
    words = [f"instances={folder}", f"references={tmp_path / 'mine.csv'}"]
    again = evaluated(policies / "tsp.pt", tmp_path, *words, out="again")
    assert [row["reference"] for row in again.rows] == ["1.0", "2.0"] and "warning" not in again.output
    words[1] = table(tmp_path, 'name,cost\n"=HYPERLINK(""x"")",3\n')  # as the instance itself is called
    own = evaluated(policies / "tsp.pt", tmp_path, *words, out="own")
    assert own.rows[0]["reference"] == "3.0"


# ---- solvers


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Solvers are installed, and nothing that they found before is known."""
    for package in ("pyvrp", "ortools"):
        pytest.importorskip(package)
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))


def shops(tmp_path, costs):
    """A file of three shops of 3 jobs on 2 machines, with the shortest makespans."""
    draw = np.random.default_rng(1)
    times = draw.integers(1, 30, (3, 3, 2))
    machines = draw.permuted(np.tile(np.arange(2), (3, 3, 1)), axis=2)
    np.savez(tmp_path / "shops.npz", times=times, machines=machines, cost=costs, reference="stated")
    sequences = set(permutations([0, 0, 1, 1, 2, 2]))
    shops = zip(times.tolist(), machines.tolist(), strict=True)
    return [min(plain_makespan(*shop, sequence) for sequence in sequences) for shop in shops]


def test_a_solver_fills_only_what_is_missing(policies, tmp_path, own_cache):
    best = shops(tmp_path, np.array([np.nan, 1000.0, np.nan]))
    words = [f"instances={tmp_path / 'shops.npz'}", "references=solver", "solver.time_limit=1"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    assert [float(row["reference"]) for row in found.rows] == [best[0], 1000.0, best[2]]
    assert [row["kind"] for row in found.rows] == ["optimal (CP-SAT)", "stated", "optimal (CP-SAT)"]
    assert found.methods["greedy"]["reference"] == "optimal (CP-SAT) (2), stated (1)"
    assert "gap to: optimal (CP-SAT) (2), stated (1)" in found.output
    assert len(list((tmp_path / "cache").rglob("*.npz"))) == 2  # nothing else was solved


def test_a_solver_is_a_method_like_others(policies, tmp_path, own_cache):
    best = shops(tmp_path, np.full(3, np.nan))
    words = [f"instances={tmp_path / 'shops.npz'}", "method=[greedy,solver]", "solver.time_limit=1"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    assert [float(row["cost"]) for row in found.of("solver")] == best
    assert all(float(row["cost"]) >= cost for row, cost in zip(found.of("greedy"), best, strict=True))
    ends = [row["end"] for row in found.table("schedules.csv") if row["method"] == "solver"]
    assert len(ends) == 3 * 6 and max(map(int, ends)) == max(best)
    assert found.methods["solver"]["seconds"] > 0

    again = evaluated(policies / "jssp.pt", tmp_path, *words, "references=solver", out="again")
    assert [row["gap"] for row in again.of("solver")] == ["0.0"] * 3
    assert again.methods["solver"]["seconds"] == found.methods["solver"]["seconds"]  # kept, with what it took


def two_shops(tmp_path):
    """The busiest machine has 20 to do in both; only in the first one can it work all the time. The optima: 20, 21."""
    times, machines = [[[10, 1], [1, 10]], [[10, 1], [10, 1]]], [[[0, 1], [1, 0]], [[0, 1], [0, 1]]]
    np.savez(tmp_path / "two.npz", times=times, machines=machines)
    return f"instances={tmp_path / 'two.npz'}"


def kinds_of(found, method):
    return [(float(row["reference"]), row["kind"]) for row in found.of(method)]


def test_a_shop_without_a_reference_is_compared_with_its_lower_bound(policies, tmp_path):
    found = evaluated(policies / "jssp.pt", tmp_path, two_shops(tmp_path))
    assert kinds_of(found, "greedy")[1] == (20, "lower bound")
    (instance_set,) = map(with_lower_bounds, JSSP([[2, 2]], [[2, 2]]).load(str(tmp_path / "two.npz")))
    assert proven(instance_set, [solved([21, 21]), solved([22, 25])]).kinds == ["lower bound"] * 2
    assert proven(instance_set, [solved([21, 21]), solved([20, 25])]).kinds == ["optimal (lower bound)", "lower bound"]


def solved(costs, bounds=None, claims=None):
    costs = torch.tensor(costs, dtype=torch.float64)
    bounds = None if bounds is None else torch.tensor(bounds, dtype=torch.float64)
    return SolvedSet.without_policy(torch.zeros(len(costs), 1, dtype=torch.int64), costs, 1.0, bounds, claims)


def test_the_proof_of_a_solver_is_told_and_the_others_are_compared_with_it(policies, tmp_path, own_cache):
    """Also from what is kept; where an earlier version has kept it, without the proof."""
    words = [two_shops(tmp_path), "method=[greedy,solver]", "solver.time_limit=5", "solver.threads=2"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    assert [float(row["cost"]) for row in found.of("solver")] == [20, 21]
    assert kinds_of(found, "solver") == kinds_of(found, "greedy") == [(20, OPTIMAL), (21, OPTIMAL)]
    assert found.methods["solver"]["mean_gap"] == 0 and found.methods["solver"]["claims"] == {OPTIMAL: 2}
    assert f"gap to: {OPTIMAL}" in found.output and f"solver: {OPTIMAL} (2)" in found.output
    assert f"solver: {OPTIMAL} (2)" in (found.folder / "report.html").read_text()
    again = evaluated(policies / "jssp.pt", tmp_path, *words, "resume=true")
    assert again.rows == found.rows
    for path in (found.folder / "progress").glob("*/*.npz"):
        with np.load(path) as file:
            kept = {name: file[name] for name in file if not name.endswith((".bounds", ".claims"))}
        np.savez(path, **kept)
    manifest = found.folder / "progress" / "manifest.json"
    values = {"solver.time_limit": 5.0, "methods.solver.time_limit": 5.0, **json.loads(manifest.read_text())}
    manifest.write_text(json.dumps({key: x for key, x in values.items() if "solver.threads" not in key}))
    old = evaluated(policies / "jssp.pt", tmp_path, *words, "resume=true")
    assert [row["kind"] for row in old.of("solver")] == ["optimal (lower bound)", "lower bound"]


def test_bounds_of_solvers_take_the_place_of_ours():
    """Not that of a solution's cost; a bound of 0 is a value where a good solution may cost 0, and none elsewhere."""
    costs = [[9.0] * 6, [8.0] * 6]
    bounds, claims = [7.0, 3.0, 8.0, 0.0, -math.inf, 7.0], ["S, 1 s"] * 6
    claims[2] = "optimal (S)"
    kinds = ["lower bound", "lower bound", "", "", "", "mine"]
    instance_set, _ = instance_set_of([0.0] * 6, [5.0, 5.0, math.nan, math.nan, math.nan, 4.0], kinds, {})
    found = proven(instance_set, [solved(costs[0]), solved(costs[1], bounds, claims)])
    assert found.kinds == ["lower bound, S, 1 s", "lower bound", "optimal (S)", "", "", "mine"]
    assert found.references.nan_to_num(nan=-1).tolist() == [7, 5, 8, -1, -1, 4]
    late = proven(instance_set._replace(pooled=True), [solved(costs[1], bounds, claims)])
    assert late.references[3] == 0 and late.kinds[3] == "lower bound, S, 1 s"
    reached = proven(instance_set, [solved([7.0] * 6), solved(costs[1], bounds, claims)])
    assert reached.kinds[0] == "optimal (lower bound, S, 1 s)"


@pytest.mark.parametrize(
    ("policy", "arrays", "cost"),
    [
        ("fjsp", {"times": [[[3, 5], [-1, 2]], [[4, -1], [1, 1]]]}, 7),  # one machine does 3 + 4
        ("jssp", {"times": [[10, 1], [10, 1]], "machines": [[0, 1], [0, 1]]}, 21),
        ("jssp_tardiness", {"times": [[3], [4]], "machines": [[0], [0]], "due": [3, 5]}, 2),
        ("jssp_tardiness", {"times": [[3], [4]], "machines": [[0], [0]], "due": [3, 7]}, 0),
    ],
)
def test_a_proof_is_told_in_python(own_cache, policy, arrays, cost):
    result = solve(policy, **arrays, method="solver", time_limit=np.float32(5))
    assert (result.cost, result.reference, result.kind, result.gap) == (cost, cost, OPTIMAL, 0)


def test_the_total_flow_time_is_proved(policies, tmp_path, own_cache):
    words = [two_shops(tmp_path), "method=solver", "problem.objective=total_flow_time", "solver.time_limit=5"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    assert [row["kind"] for row in found.rows] == [OPTIMAL] * 2 and {row["gap"] for row in found.rows} == {"0.0"}


# ---- instances that a solver does not solve


@pytest.fixture
def impatient(own_cache, monkeypatch):
    """A solver that needs a second for the shops of three jobs, and says so."""
    real = BACKENDS.of("jssp")

    def solve(row, options):
        if len(row.times) == 3 and options.time_limit < 1:
            raise SolverError("found nothing; give it more time")
        return real.solve(row, options)

    monkeypatch.setitem(BACKENDS, "jssp", real._replace(solve=solve))


def sizes(tmp_path):
    """A shop of two jobs, and one of three."""
    (tmp_path / "sizes").mkdir(exist_ok=True)
    (tmp_path / "sizes" / "a.txt").write_text("2 2\n0 10 1 1\n0 10 1 1\n")
    (tmp_path / "sizes" / "b.txt").write_text("3 2\n0 1 1 4\n0 2 1 5\n0 3 1 6\n")
    return f"instances={tmp_path / 'sizes'}"


def test_what_a_solver_does_not_solve_is_named_and_left_out(policies, tmp_path, impatient):
    words = [sizes(tmp_path), "method=[solver,greedy,heuristic]", "solver.time_limit=0.9"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    missing = "warning: solver: 1 of 2 instances not solved: b (found nothing; give it more time); the means of its row"
    assert missing in found.output and missing in (found.folder / "report.html").read_text()
    assert [row["cost"] for row in found.of("solver")] == ["21.0", ""] and found.of("solver")[1]["gap"] == ""
    reason = "found nothing; give it more time"
    assert found.methods["solver"]["not_solved"] == [{"instance": "b", "reason": reason}]
    assert found.methods["solver"]["num_instances"] == 1 and found.methods["solver"]["mean_cost"] == 21
    assert found.methods["greedy"]["num_instances"] == 2 and list(found.methods["solver"]["by_size"]) == ["2x2"]
    assert {row["instance"] for row in found.table("schedules.csv") if row["method"] == "solver"} == {"a"}
    best = (found.folder / "report.html").read_text().partition("best method</dt><dd>")[2].partition("<")[0]
    assert best != "solver"  # its mean is over fewer instances

    longer = [*words[:2], "solver.time_limit=2", "resume=true"]
    again = evaluated(policies / "jssp.pt", tmp_path, *longer)
    assert [row["cost"] for row in again.of("solver")] == ["21.0", "16.0"] and "not solved" not in again.output


def test_a_reference_that_a_solver_does_not_find_is_missing(policies, tmp_path, impatient):
    found = evaluated(policies / "jssp.pt", tmp_path, sizes(tmp_path), "references=solver", "solver.time_limit=0.9")
    assert "warning: b has no reference: found nothing; give it more time" in found.output
    assert kinds_of(found, "greedy")[0] == (21, OPTIMAL) and found.rows[1]["kind"].endswith("lower bound")


def test_where_nothing_is_solved_it_is_an_error(policies, tmp_path, impatient):
    words = [f"checkpoint={policies / 'jssp.pt'}", sizes(tmp_path), "method=solver", "workers=0", "solver.workers=0"]
    (tmp_path / "sizes" / "a.txt").unlink()
    result = typed(evaluate, *words, "solver.time_limit=0.9", f"out_dir={tmp_path / 'out'}", cwd=tmp_path)
    assert result.returncode == 2 and result.stderr == "error: b: found nothing; give it more time\n"
    shop = {"times": [[1, 4], [2, 5], [3, 6]], "machines": [[0, 1]] * 3}
    with pytest.raises(ValueError, match=r"instance.*: found nothing; give it more time"):
        solve("jssp", **shop, method="solver", time_limit=0.9)
