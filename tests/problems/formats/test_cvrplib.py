"""CVRPLIB files: how they may be written, and what happens to malformed ones."""

from __future__ import annotations

import gzip
import pickle
import re

import pytest

from problems.formats import text
from problems.formats.cvrplib import LARGEST_DEMAND, read_cvrplib, read_solution, solution_text
from tests.helpers.instance_files import CVRPLIB, raises_with

VALID_SOLUTION = b"Route #1: 2 4\nRoute #2: 1\nRoute #3: 3\nCost 27.5\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data,
        lambda data: data.replace(b"SECTION", b"SECTION :").replace(b"\n", b"\n \n"),
        lambda data: data.replace(b"DEPOT_SECTION\n1\n-1", b"DEPOT_SECTION\n1 -1").replace(b"EOF\n", b""),
        lambda data: data.replace(b"\n-1\nEOF\n", b"\nEOF\n\x1a"),  # without an end mark, and with that of DOS
        lambda data: data.replace(b": 10\n", b": 10.0\n").replace(b": 5\n", b": 5.\n").replace(b"2 10\n", b"2 10.00\n"),
        lambda data: data.replace(b"CAPACITY : 10\n", b"").replace(b"DEPOT_S", b"capacity: 10\nDEPOT_S"),
        lambda data: data.replace(b"2 10\n3 4\n", b"3 4\n2 10\n"),
        lambda data: data.replace(b"DEMAND", b"-1\nDEMAND").replace(b"DEPOT", b"-1\nDEPOT"),  # some programs do so
        lambda data: data.replace(b"DEMAND", b"DISPLAY_DATA_SECTION\n1 9 9\nDEMAND"),
        lambda data: data.replace(b"four", b"four.vrp").replace(
            b"TYPE : C", b"VEHICLES : 4\nSERVICE_TIME : 0.0\nTYPE : C"
        ),
        lambda data: data.replace(b"CAPACITY", b"EDGE_WEIGHT_FORMAT: FUNCTION\nNODE_COORD_TYPE: TWOD_COORDS\nCAPACITY"),
    ],
)
def test_spellings_of_the_same_instance(tmp_path, change):
    (tmp_path / "other.vrp").write_bytes(change(CVRPLIB))
    name, coords, demands, capacity, metric = read_cvrplib(tmp_path / "other.vrp")
    assert (name, capacity, metric) == ("four", 10, "EUC_2D")
    assert coords.tolist() == [[0.0, 0.0], [3.0, -4.5], [100.0, 7.0], [2.5, 0.5], [-1.0, -1.0]]
    assert demands.tolist() == [0, 10, 4, 0, 6]


def test_sections_come_in_any_order_and_the_name_may_be_missing(tmp_path):
    head, coords, demands, depot = re.split(rb"(?=NODE_COORD|DEMAND_|DEPOT_)", CVRPLIB.replace(b"NAME : four\n", b""))
    path = tmp_path / "mine.txt"
    path.write_bytes(head.replace(b"EUC", b"CEIL") + depot.replace(b"EOF\n", b"") + demands + coords)
    instance = read_cvrplib(path)
    assert (instance.name, instance.metric, instance.demands.tolist()) == ("mine", "CEIL_2D", [0, 10, 4, 0, 6])


def test_any_node_may_be_the_depot(tmp_path):
    path = tmp_path / "last.vrp"
    path.write_bytes(CVRPLIB.replace(b"DEPOT_SECTION\n1\n", b"DEPOT_SECTION\n4\n"))
    instance = read_cvrplib(path)
    assert instance.coords.tolist() == [[2.5, 0.5], [0.0, 0.0], [3.0, -4.5], [100.0, 7.0], [-1.0, -1.0]]
    assert instance.demands.tolist() == [0, 0, 10, 4, 6]


DEPOT_ALONE = (
    b"DIMENSION : 1\nEDGE_WEIGHT_TYPE : EUC_2D\nCAPACITY : 1\nNODE_COORD_SECTION\n1 0 0\n"
    b"DEMAND_SECTION\n1 0\nDEPOT_SECTION\n1 -1\nEOF\n"
)
MALFORMED = {  # what is replaced in CVRPLIB -> by what, the line named, the rule
    "a zip": (CVRPLIB, b"PK\x03\x04", None, "this is a zip archive, as .xlsx is; one of NumPy's must be called .npz"),
    "an array": (CVRPLIB, b"\x93NUMPY\x01\x00v", None, "this is a .npy, one array; instances come in an .npz of named"),
    "a pickle": (CVRPLIB, pickle.dumps([1, 2]), None, "this is a pickle, which can run any program; load it in Python"),
    "half a .gz": (CVRPLIB, gzip.compress(CVRPLIB)[:-9], None, "the .gz is damaged"),
    "cut in the coordinates": (
        CVRPLIB[CVRPLIB.index(b"4 +2") :],
        b"",
        None,
        "there is no DEMAND_SECTION, DEPOT_SECTION",
    ),
    "capacity twice, once behind": (b"EOF", b"CAPACITY : 10\nEOF", 23, "CAPACITY was already given in line 7"),
    "a matrix": (b"DEMAND_S", b"EDGE_WEIGHT_SECTION\n0 1\nDEMAND_S", 14, ", once; got 'EDGE_WEIGHT_S"),
    "cut before the end mark": (b"-1\nEOF\n", b"", 21, "DEPOT_SECTION must end with -1, or the file with EOF"),
    "two depots without an end mark": (b"1\n-1\n", b"1\n2\n", 22, "must have exactly one depot, got 2"),
    "depot alone": (CVRPLIB[CVRPLIB.index(b"DIM") :], DEPOT_ALONE, 5, "at least one customer, DIMENSION is 1"),
    "capacity zero": (b"CAPACITY : 10", b"CAPACITY : 0", 7, "CAPACITY must be at least 1, got 0"),
    "capacity not whole": (b"CAPACITY : 10", b"CAPACITY : 10.5", 7, "CAPACITY must be a whole number, got '10.5'"),
    "capacity huge": (b"CAPACITY : 10", b"CAPACITY : 1" + b"0" * 99, 7, f"at most {LARGEST_DEMAND}, got '1000"),
    "route length": (b"CAPACITY", b"DISTANCE : 200\nCAPACITY", 7, "DISTANCE, a limit of the length of a route, is not"),
    "service time": (b"CAPACITY", b"SERVICE_TIME : 5\nCAPACITY", 7, "SERVICE_TIME must be 0"),
    "vehicles": (b"CAPACITY", b"VEHICLES : 3\nCAPACITY", 7, "below that of the customers, got '3': not supported"),
    "unknown keyword": (b"CAPACITY", b"TIME_LIMIT : 3\nCAPACITY", 7, "the keyword 'TIME_LIMIT' is not supported"),
    "demand above capacity": (b"2 10", b"2 11", 16, "between 0 and the capacity 10, got 11"),
    "demand negative": (b"2 10", b"2 -1", 16, "between 0 and the capacity 10, got -1"),
    "depot with demand": (b"SECTION\n1 0\n", b"SECTION\n1 1\n", 15, "the depot must have the demand 0, got 1"),
    "depot empty": (b"1\n-1\n", b"", None, "must have exactly one depot, got 0"),
    "depots two": (b"1\n-1\n", b"1\n2\n-1\n", 23, "must have exactly one depot, got 2"),
    "depot another": (b"1\n-1\n", b"2\n-1\n", 16, "the depot must have the demand 0, got 10"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_instances_are_refused_with_file_line_and_rule(tmp_path, case):
    old, new, line, rule = MALFORMED[case]
    path = tmp_path / "bad.vrp"
    assert CVRPLIB.count(old) == 1
    path.write_bytes(CVRPLIB.replace(old, new))
    with raises_with(path, line, rule) as caught:
        read_cvrplib(path)
    assert len(str(caught.value)) < len(str(path)) + 200


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "four.vrp.gz"
    path.write_bytes(gzip.compress(CVRPLIB))
    monkeypatch.setattr(text, "LARGEST", len(CVRPLIB))
    assert read_cvrplib(path).name == "four"
    monkeypatch.setattr(text, "LARGEST", len(CVRPLIB) - 1)
    with raises_with(path, None, f"the .gz unpacks to more than {len(CVRPLIB) - 1} bytes"):
        read_cvrplib(path)


@pytest.mark.parametrize(
    ("data", "cost"),
    [
        (VALID_SOLUTION, 27.5),
        (VALID_SOLUTION.replace(b"Cost 27.5\n", b""), None),
        (VALID_SOLUTION.replace(b"Cost ", b"\n cost: ").replace(b"Route #", b"route#"), 27.5),
    ],
)
def test_routes_are_counted_from_1_and_the_cost_may_be_missing(tmp_path, data, cost):
    path = tmp_path / "four.sol"
    path.write_bytes(data)
    assert read_solution(path, 4) == ([[2, 4], [1], [3]], cost)


@pytest.mark.parametrize(
    ("old", "new", "line", "rule"),
    [
        (VALID_SOLUTION, b"", None, "the file is empty"),
        (b"Route #3: 3\nCost 27.5\n", b"", None, "visit 3 of 4 customers, 3 is the first without"),
        (b"2 4", b"2 4 2", 1, "customer 2 is visited twice"),
        (b"#2: 1", b"#2: 5", 2, "customers are 1..4, got '5'"),
        (b"#2: 1", b"#2: one", 2, "a customer must be a whole number, got 'one'"),
        (b"#2: 1", b"#2:", 2, "route 2 has no customers"),
        (b"#2: 1", b"#3: 1", 2, "route 2 is to follow, got route '3'"),
        (b"#2: 1", b"2: 1", 2, "a line is `Route #k: customers` or `Cost c`, got 'Route 2: 1'"),
        (b"Cost 27.5", b"Cost cheap", 4, "the cost must be a number, got 'cheap'"),
        (b"Cost 27.5", b"Cost nan", 4, "the cost must be finite and not negative, got 'nan'"),
        (b"Cost 27.5\n", b"Cost 27.5\nCost 27.5\n", 5, "nothing may follow the cost"),
    ],
)
def test_malformed_solutions_are_refused_with_file_line_and_rule(tmp_path, old, new, line, rule):
    path = tmp_path / "bad.sol"
    assert VALID_SOLUTION.count(old) == 1
    path.write_bytes(VALID_SOLUTION.replace(old, new))
    with raises_with(path, line, rule):
        read_solution(path, 4)


def test_costs_are_written_in_any_unit(tmp_path):
    for cost in (26.0, 1e11, 22.4, 1e-9 / 3):
        (tmp_path / "x.sol").write_text(solution_text([[1]], cost))
        assert read_solution(tmp_path / "x.sol", 1) == ([[1]], pytest.approx(cost, rel=1e-9, abs=0))
