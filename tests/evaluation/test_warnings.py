"""What is said of the results: lines of the table, references that cannot be, files that are left out."""

from __future__ import annotations

import html
import json
import math
import shutil

import numpy as np
import pytest
import torch

from gumbeldore.evaluation import tables
from gumbeldore.evaluation.references import contradicted
from tests.helpers.evaluations import DATA, evaluated, instance_set_of
from tests.helpers.instance_files import write_vrp


def test_solutions_below_a_reference_are_flagged(policies, tmp_path):
    """A cost published for exact distances, given as that of rounded ones."""
    points = [(1.4 * i, 0) for i in range(9)]
    write_vrp(tmp_path / "line.vrp", points, [0] + [1] * 8, 100)
    write_vrp(tmp_path / "other.vrp", points, [0] + [2] * 8, 100)
    (tmp_path / "table.csv").write_text("name,cost,kind\nline,1000,best known\nother,1000,mine\n")
    words = [f"instances={tmp_path}", f"references={tmp_path / 'table.csv'}", "method=[greedy,beam]"]
    found = evaluated(policies / "cvrp.pt", tmp_path, *words)
    for name, method in found.methods.items():
        (cost,) = [float(row["cost"]) for row in found.of(name) if row["instance"] == "line"]
        assert method["below_reference"] == [
            {"instance": "line", "cost": cost, "reference": 1000.0, "kind": "best known"}
        ]
        line = f"{name}: 1 solution is cheaper than the reference: line ({cost:.0f} < 1000, best known); the mean gap"
        assert f"warning: {line}" in found.output
        assert html.escape(line) in (found.folder / "report.html").read_text()
        assert f"{method['mean_gap']:.3%}" in found.output and method["mean_gap"] < 0


@pytest.mark.parametrize(
    ("cost", "reference", "kind", "flagged"),
    [
        (99.0, 100.0, "optimal (TSPLIB)", True),
        (9_999_999.0, 10_000_000.0, "Best known 2026", True),  # whole numbers have no rounding
        (99.9, 100.0, "lower bound", True),
        (99.9995, 100.0, "optimal", False),
        (100.0, 100.0, "optimal", False),
        (99.0, 100.0, "near-optimal", False),
        (99.0, 100.0, "LKH3 quality", False),
        (99.0, math.nan, "", False),
        (-4.3, -4.25, "optimal", True),  # of costs that are negative
        (-4.2500001, -4.25, "optimal", False),
        (-4.25, -4.25, "optimal", False),
    ],
)
def test_which_references_a_solution_contradicts(cost, reference, kind, flagged):
    instance_set, solved = instance_set_of([cost], [reference], [kind], {})
    assert contradicted(solved.costs, instance_set).tolist() == [flagged]
    assert len(tables.contradiction_lines({"greedy": [solved]}, [instance_set])) == flagged


def test_the_line_names_the_first_instances():
    instance_set, solved = instance_set_of([5.0] * 9, [6.0] * 9, ["optimal"] * 9, {})
    (line,) = tables.contradiction_lines({"greedy": [solved]}, [instance_set])
    assert "9 solutions are cheaper than the reference: n0 (5 < 6, optimal), n1" in line and " and 4 more; " in line


def test_what_is_left_out_is_said_and_counted(policies, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    shutil.copy(DATA / "eil51.tsp", folder)
    (folder / "eil51.opt.tour").write_text("TYPE: TOUR\nTOUR_SECTION\n1 1\nEOF\n")
    for i in range(12):
        (folder / f"x{i:02d}.tsp").write_text("TYPE: TSP\nEDGE_WEIGHT_TYPE: MAN_2D\n")
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    assert [row["kind"] for row in found.rows] == ["optimal (TSPLIB)"]
    assert "left out: x00.tsp: line 2: EDGE_WEIGHT_TYPE must be one of" in found.output
    assert "and 3 more such lines, 13 in all" in found.output
    content = json.loads((found.folder / "results.json").read_text())
    assert content["num_left_out"] == 12 and len(content["left_out"]) == 12
    assert content["left_out"][0]["file"] == "x00.tsp" and content["left_out"][0]["reason"].startswith("line 2: EDGE")
    (warning,) = content["warnings"]
    assert warning.startswith(f"{folder}/eil51.opt.tour, line 3: node 1 is visited twice")
    page = (found.folder / "report.html").read_text()
    assert page.count("left out: x") == 12 and html.escape(warning) in page


def test_instances_of_no_cost_have_a_report(policies, tmp_path):
    np.savez(tmp_path / "points.npz", coords=np.ones((3, 5, 2)) * [[[1]], [[2]], [[3]]], cost=[0, 0, 1.5])
    words = ["method=[greedy,gumbeldore]", "search.beam_width=4"]
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={tmp_path / 'points.npz'}", *words)
    assert {row["cost"] for row in found.rows} == {"0.0"} and (found.folder / "report.html").exists()
    assert [row["reference"] for row in found.of("greedy")] == ["", "", "1.5"]
    assert "warning: points/0 and 1 more: the reference cost 0 is taken as unknown" in found.output


# ---- lines of the table on the terminal


def test_no_gap_is_a_negative_zero():
    assert tables.percentage(-1e-9, 3) == "0.000%" and tables.percentage(0.0, 1) == "0.0%"
    assert tables.percentage(-0.0123) == "-1.23%" and tables.percentage(-5.1e-6, 3) == "-0.001%"


def test_a_reference_known_as_a_mean_has_a_line_of_its_own():
    known, first = instance_set_of([10.0, 12.0], [10.0, 10.0], ["LKH3", "LKH3"], {"HGS": 10.0})
    plain, second = instance_set_of([3.0], [2.0], ["optimal"], {})
    assert tables.mean_lines({"greedy": [first, second]}, [known, plain]) == [
        "gap of the mean cost to HGS (mean 10): greedy 10.000%"
    ]
    better = second._replace(costs=torch.tensor([9.5, 9.5]).double())
    lines = tables.mean_lines({"greedy": [first], "beam": [better]}, [known])
    assert lines == ["gap of the mean cost to HGS (mean 10): greedy 10.000%, beam -5.000%"]
    assert tables.mean_lines({"greedy": [second]}, [plain]) == []


def test_kinds_of_references_are_counted():
    nan = math.nan
    few, _ = instance_set_of([1.0] * 3, [1.0, nan, 1.0], ["optimal", "", "bound"], {})
    more, _ = instance_set_of([1.0] * 2, [1.0, 1.0], ["optimal", "optimal"], {})
    none, _ = instance_set_of([1.0], [nan], [""], {})
    assert tables.reference_of([few, more]) == "optimal (3), bound (1)"
    assert tables.reference_of([none, more]) == "optimal" and tables.reference_of([none]) is None
