"""JSSP files: both formats, how they may be written, and what happens to malformed ones."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from problems.formats.jsplib import JsspInstance, read_jssp
from problems.jssp.sets import JobShopSets
from tests.helpers.instance_files import JSPLIB, raises_with
from tests.helpers.tensors import same_tensors

DATA = Path(__file__).parents[2] / "data" / "jssp"
TITLE = b"Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound\n"
TAILLARD = TITLE + b"3 2 11 22 33 44\nTimes\n 5 7\n12 0\n3 4\nMachines\n1 2\n2 1\n 2  1\n"
PLUS_SIGNS = b"""This file has two instances.
 instance small
 +++++++++++++++++
 of three jobs, 2 machines
3 2
0 5 1 7
1 12 0 0
1 3 0 4
 ++++++
 instance other
 +++++
 1 2
 0 1 1 2
 +++++
"""
TIMES = [[5, 7], [12, 0], [3, 4]]
MACHINES = [[0, 1], [1, 0], [1, 0]]


def read_one(path: Path) -> JsspInstance:
    (instance,) = read_jssp(path)
    return instance


@pytest.mark.parametrize("data", [JSPLIB, TAILLARD], ids=["standard", "taillard"])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: b"\xef\xbb\xbf" + data,  # a byte order mark
        lambda data: data.replace(b"\n", b"\n \t\n"),
        lambda data: data.rstrip(b"\n"),
        lambda data: data + b"\x1a",  # which old editors write
        lambda data: data + b"\n+++ EOF +++\n",  # the last line of OR-Library's file
        lambda data: data.replace(b"12", b"12.0").replace(b"\n3 2", b"\n3.0 2."),
        lambda data: data.replace(b" ", b"\t"),
        lambda data: data.replace(b"\n", b"\n# remark\n"),
        lambda data: data.replace(TITLE, b""),
        lambda data: data.replace(TITLE, TITLE.upper().replace(b",", b", ")),
        lambda data: data.replace(b" 11 22 33 44", b""),
        lambda data: data.replace(b"Times", b"TIMES").replace(b"Machines\n1", b"machines\n1"),
        lambda data: data.replace(b"Times\n", b"").replace(b"Machines\n1", b"1"),
        lambda data: data.replace(TITLE, b"").replace(b"Times\n", b"").replace(b"Machines\n", b""),
        lambda data: b"3 2\n" + re.sub(rb"(?s).*Times\n|Machines\n", b"", data) if TITLE in data else data,
    ],
)
def test_spellings_and_line_ends(tmp_path, data, change):
    path = tmp_path / "Small.v2.txt"
    path.write_bytes(change(data))
    shop = read_one(path)
    assert (shop.name, shop.times.tolist(), shop.machines.tolist()) == ("Small.v2", TIMES, MACHINES)
    assert (shop.first, shop.remark) == (int(data is TAILLARD), "")


def test_files_of_several_instances(tmp_path):
    path = tmp_path / "several.txt"
    path.write_bytes(PLUS_SIGNS)
    small, other = read_jssp(path)
    assert (small.name, small.times.tolist(), small.machines.tolist()) == ("small", TIMES, MACHINES)
    assert (other.name, other.times.tolist(), other.machines.tolist()) == ("other", [[1, 2]], [[0, 1]])
    path.write_bytes(TAILLARD + TAILLARD.replace(b"12 0", b"12 9"))
    first, second = read_jssp(path)
    assert (first.name, second.name) == ("several/1", "several/2")
    assert first.times.tolist() == TIMES and second.times.tolist() == [TIMES[0], [12, 9], TIMES[2]]
    path.write_bytes(JSPLIB + PLUS_SIGNS)  # no instance is passed over
    with pytest.raises(ValueError, match="line 3: an instance without a name above it"):
        read_jssp(path)
    path.write_bytes(PLUS_SIGNS.replace(b"1 12 0 0", b"1 12 0 x"))
    with pytest.raises(ValueError, match="line 7: a processing time must be a whole number, got 'x'"):
        read_jssp(path)


@pytest.mark.parametrize("below", [b"19\n", b"19\n0 1 2\n2 1 0\n"])
def test_a_solution_below_the_jobs_is_not_read(tmp_path, below):
    path = tmp_path / "solved.jsp"
    path.write_bytes(JSPLIB + below)
    assert (read_one(path).times.tolist(), read_one(path).machines.tolist()) == (TIMES, MACHINES)
    path.write_bytes(JSPLIB + below + b"5\n")
    with pytest.raises(ValueError, match="nothing may follow the 3 rows, got '19'"):
        read_jssp(path)


def test_a_third_number_of_the_first_line_is_no_reference_and_is_remarked_on(tmp_path):
    path = tmp_path / "known.jsp"
    path.write_bytes(JSPLIB.replace(b"3 2\n", b"3 2 17\n"))
    (instance_set,) = JobShopSets().load(str(path))
    remark = "the third number of the first line, '17', is taken for a makespan and not used"
    assert instance_set.warnings == [f"known: {remark}"] and instance_set.references.isnan().all()
    assert instance_set.originals.times[0].tolist() == TIMES
    path.write_bytes(PLUS_SIGNS.replace(b"3 2\n", b"3 2 17\n"))
    assert [(shop.name, shop.remark) for shop in read_jssp(path)] == [("small", remark), ("other", "")]
    path.write_bytes(PLUS_SIGNS.replace(b"3 2\n", b"6 6 55\n3 2\n"))  # of a remark
    assert [(shop.name, shop.remark) for shop in read_jssp(path)] == [("small", ""), ("other", "")]


def test_the_number_of_words_in_a_row_tells_the_formats_apart(tmp_path):
    path = tmp_path / "square.txt"
    path.write_text("1 2\n1 2 0 1\n")  # a standard file of one job ...
    assert [array.tolist() for array in read_one(path)[1:3]] == [[[2, 1]], [[1, 0]]]
    path.write_text("1 2\n1 2\n2 1\n")  # ... and one of Taillard's
    assert [array.tolist() for array in read_one(path)[1:3]] == [[[1, 2]], [[1, 0]]]
    path.write_text("2 1\n0 1\n0 2\n")
    assert [array.tolist() for array in read_one(path)[1:3]] == [[[1], [2]], [[0], [0]]]
    path.write_text("2 1\n0\n2\n1\n1\n")
    assert [array.tolist() for array in read_one(path)[1:3]] == [[[0], [2]], [[0], [0]]]
    # la01 with `machines jobs` first has the shape of a file of Taillard's; its content has not.
    path.write_text((DATA / "la01.txt").read_text().replace("10 5\n", "5 10\n", 1))
    with pytest.raises(ValueError, match="line 7: machines are 1..10 here, got '54'"):
        read_jssp(path)
    path.write_text("2 4\n0 1 1 2\n2 2 3 1\n0 1 1 2\n2 2 3 1\n")  # a standard file whose rows are wrapped
    with pytest.raises(ValueError, match="line 4: .*read as Taillard's format; in the standard format they have 8"):
        read_jssp(path)


GENERAL = "2 3\n1 5 0 4 1 2 2 9\n2 7 0 1\n"  # a job visits machine 1 twice, another never


@pytest.mark.parametrize("end", ["", " -1 -1"])  # as Da Col and Teppan end their rows
def test_jobs_of_different_lengths_visit_machines_any_number_of_times(tmp_path, end):
    path = tmp_path / "general.txt"
    path.write_text(GENERAL.replace("\n", f"{end}\n").replace(f"2 3{end}", "2 3"))
    shop = read_one(path)
    assert shop.times.tolist() == [[5, 4, 2, 9], [7, 1, 0, 0]]
    assert shop.machines.tolist() == [[1, 0, 1, 2], [2, 0, -1, -1]]
    remark = "jobs have 2 to 4 operations, 1 of 2 jobs visit a machine several times"
    assert shop.remark == f"{remark}; if they should not, a row may be cut"
    (instance_set,) = JobShopSets().load(str(path))
    assert instance_set.warnings == [f"general: {shop.remark}"]
    assert instance_set.instances.operations.tolist() == [[0, 1, 2, 3, 6, 7]]  # jobs end at the last place
    assert instance_set.originals.times.tolist() == [[[5, 4, 2, 9], [0, 0, 7, 1]]]
    assert instance_set.true_cost(torch.tensor([0]), torch.tensor([[0, 0, 0, 1, 1, 0]])).tolist() == [20]
    path.write_text("2 4\n1 5 0 4\n2 7 0 1\n")  # rows of 4 numbers, as many as machines, but one for each job
    assert read_one(path).machines.tolist() == [[1, 0], [2, 0]]
    path.write_text("1 3\n-1 -1\n")
    with pytest.raises(ValueError, match=r"general\.txt: there is no operation to be scheduled"):
        JobShopSets().load(str(path))


@pytest.mark.parametrize(("text", "machines"), [("1 1\n0 3 0 4\n", [[0, 0]]), ("1 1\n0 3\n", [[0]])])
def test_one_job_on_one_machine_is_read_as_from_arrays(tmp_path, text, machines):
    (tmp_path / "one.txt").write_text(text)
    (found,) = JobShopSets().load(str(tmp_path / "one.txt"))
    arrays = {"times": found.originals.times.numpy(), "machines": np.array([machines])}
    assert same_tensors(found.instances, JobShopSets().from_arrays(arrays, "x").instances)
    actions = torch.zeros(1, len(machines[0]), dtype=torch.int64)
    assert found.costs(actions).item() == found.originals.times.sum()


BAD_STANDARD = {  # what is replaced in JSPLIB -> by what, the line named, the rule
    "remarks alone": (JSPLIB, b"# nothing\n", None, "there is no line `jobs machines`"),
    "truncated": (b"\n  1   3 0 +4\n", b"", None, "expected 3 rows of pairs `machine time`, the file has 2"),
    "cut in a line": (b" 0 +4\n", b" 0", 7, "row 3 has 3 numbers, pairs `machine time` expected"),
    "cut in the first row": (b"0 5 1 7", b"0 5 1", 4, "row 1 has 3 numbers, pairs `machine time` expected"),
    "a row too many": (b"+4\n", b"+4\n0 1 1 1\n", 8, "nothing may follow the 3 rows, got '0 1 1 1'"),
    "four numbers first": (b"3 2\n", b"3 2 1 1\n", 3, "the first line must be `jobs machines`"),
    "rows below the end": (b"0 5 1 7", b"+ EOF +\n0 5 1 7", 4, "row 1 has 3 numbers, pairs `machine time` expected"),
    "no jobs": (b"3 2\n", b"0 2\n", 3, "jobs and machines must be 1..1000000"),
    "huge claim": (b"3 2\n", b"999999 2\n", None, "expected 999999 rows of pairs `machine time`, the file has 3"),
    "huge rows": (
        b"3 2\n",
        b"1000000 1000000\n",
        None,
        "expected 1000000 rows of pairs `machine time`, the file has 3",
    ),
    "absurd claim": (b"3 2\n", b"3 " + b"9" * 4000 + b"\n", 3, "must be 1..1000000"),
    "extended header": (b"3 2\n", b"3 2 1 1 1 1\n", 4, "row 1 has 4 numbers, 2 expected: 2 times, then of 2 m"),
    "words for numbers": (b"1 12 0 0", b"1 12 0 x", 5, "a processing time must be a whole number, got 'x'"),
    "time negative": (b"1 12 0 0", b"1 -12 0 0", 5, "processing times must be 0..1e+12, got '-12'"),
    "time huge": (b"1 12 0 0", b"1 99999999999999999999 0 0", 5, "must be 0..1e+12, got '99999999999999999999'"),
    "total huge": (
        b"1 12 0 0",
        b"1 999999999999 0 9",
        None,
        "times may add up to at most 1000000000000, got 1000000000027",
    ),
    "machine negative": (b"1 12 0 0", b"1 12 -1 0", 5, "machines are 0..1 here, got '-1'"),
    "machine too large": (b"1 12 0 0", b"3 12 0 0", 5, "machines are 0..1 here, got '3'"),
    "counted from 1": (b"0 5 1 7", b"1 5 2 7", 4, "are 0..1 here, got '2'; this file seems to count them from 1"),
    "time before machine": (b"0 5 1 7", b"5 0 7 1", 4, "machines are 0..1 here, got '5'"),
    "a wrapped row": (b"0 5 1 7", b"0 5\n1 7", 8, "nothing may follow the 3 rows, got '1 3 0 +4'"),
    "heading": (b"3 2\n", b"3 2\nTimes\n", None, "must stand above 3 rows each, one is missing"),
    "remark behind numbers": (b"0 5 1 7", b"0 5 1 7 # x", 4, "a machine must be a whole number, got '#'"),
}
BAD_TAILLARD = {  # the same of TAILLARD
    "truncated": (b" 2  1\n", b"", None, "expected 6 rows of 2 times, then of 2 machines, the file has 5"),
    "no machines": (b"Machines\n1 2\n2 1\n 2  1\n", b"", None, "must stand above 3 rows each, one is missing"),
    "a number too few": (b"12 0\n", b"12\n", 5, "row 2 has 1 numbers, 2 expected: 2 times, then of 2 m"),
    "a row too many": (b" 2  1\n", b" 2  1\n1 2\n", 11, "nothing may follow the 6 rows, got '1 2'"),
    "heading too early": (
        b"3 4\nMachines\n",
        b"Machines\n3 4\n",
        6,
        "must stand above 3 rows each, 'Machines' does not",
    ),
    "headings swapped": (b"Times", b"Machines", 3, "must stand above 3 rows each, 'Machines' does not"),
    "another heading": (b"Times\n", b"Durations\n", None, "must stand above 3 rows each, one is missing"),
    "five numbers": (b" 44\n", b"\n", 2, "the first line must be `jobs machines`"),
    "counted from 0": (b"\n1 2\n", b"\n0 1\n", 8, "are 1..2 here, got '0'; this file seems to count them from 0"),
    "machine too large": (b"\n1 2\n", b"\n1 3\n", 8, "machines are 1..2 here, got '3'"),
    "standard rows": (b" 5 7\n12 0\n3 4\nMachines\n", b"0 5 1 7\n", None, "one is missing"),
}
MALFORMED = [(JSPLIB, case) for case in BAD_STANDARD.items()] + [(TAILLARD, case) for case in BAD_TAILLARD.items()]


@pytest.mark.parametrize(("data", "case"), MALFORMED, ids=[case[0] for _, case in MALFORMED])
def test_malformed_files_are_refused_with_file_line_and_rule(tmp_path, data, case):
    old, new, line, rule = case[1]
    path = tmp_path / "bad.txt"
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    with raises_with(path, line, rule) as caught:
        JobShopSets().read(path)
    assert len(str(caught.value)) < len(str(path)) + 200
