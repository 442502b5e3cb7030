"""References of an evaluation that do not come with the instances: a table of the user's, or a solver's answers."""

from __future__ import annotations

import os
from itertools import permutations

import numpy as np
import pytest
import torch

import evaluate
from gumbeldore.evaluation.references import proven, with_lower_bounds
from gumbeldore.runtime.files import write_table
from problems.jssp import JSSP
from tests.helpers.commands import refused, typed
from tests.helpers.evaluations import DATA, evaluated
from tests.helpers.schedules import plain_makespan

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


def test_a_shop_without_a_reference_is_compared_with_its_lower_bound(policies, tmp_path, own_cache):
    """The busiest machine has 20 to do in both; only in the first one can it work all the time."""
    times, machines = [[[10, 1], [1, 10]], [[10, 1], [10, 1]]], [[[0, 1], [1, 0]], [[0, 1], [0, 1]]]
    np.savez(tmp_path / "two.npz", times=times, machines=machines)
    words = [f"instances={tmp_path / 'two.npz'}", "method=[greedy,solver]", "solver.time_limit=1"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    assert [float(row["cost"]) for row in found.of("solver")] == [20, 21]
    assert [float(row["reference"]) for row in found.rows] == [20, 20, 20, 20]
    assert [float(row["gap"]) for row in found.of("solver")] == pytest.approx([0, 0.05])
    assert [row["kind"] for row in found.rows] == ["optimal (lower bound)", "lower bound"] * 2
    assert "gap to: optimal (lower bound) (1), lower bound (1)" in found.output
    (instance_set,) = map(with_lower_bounds, JSSP([[2, 2]], [[2, 2]]).load(str(tmp_path / "two.npz")))
    assert proven(instance_set, [torch.tensor([21.0, 21.0]), torch.tensor([22.0, 25.0])]).kinds == ["lower bound"] * 2
    assert proven(instance_set, [torch.tensor([21.0, 21.0]), torch.tensor([20.0, 25.0])]).kinds[0] != "lower bound"


def test_a_solver_that_fails_costs_no_other_methods_table(policies, tmp_path, own_cache):
    words = [f"checkpoint={policies / 'jssp.pt'}", f"instances={DATA}/jssp/ft06.txt", "method=[greedy,solver]"]
    words += [f"out_dir={tmp_path / 'out'}", "workers=0", "solver.workers=0", "solver.time_limit=1e-7"]
    result = typed(evaluate, *words, cwd=tmp_path)
    assert result.returncode != 0 and result.stderr.startswith("error: ft06: CP-SAT found no schedule")
    assert "greedy" in result.stdout and (tmp_path / "out" / "report.html").is_file()
