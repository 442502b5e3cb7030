"""Job shops in JSON: what can be said in it, and what is wrong with a file."""

from __future__ import annotations

import copy
import gzip
import json

import pytest
import torch

from problems.formats.job_shop import NOT_FIXED
from problems.formats.job_shop_json import read_json
from problems.jssp.sets import JobShopSets

SHOP = {
    "machines": 3,
    "machine_release": [0, 60, 0],
    "jobs": [
        {"release": 5, "operations": [{"machine": 0, "time": 12, "wait": 3}, {"machine": 1, "time": 7}]},
        {"operations": [{"machine": 2, "time": 9, "start": -4}, {"machine": 0, "time": 2}, {"machine": 2, "time": 1}]},
    ],
}


def written(path, change=lambda shop: None):
    shop = copy.deepcopy(SHOP)
    change(shop)
    path.write_text(json.dumps(shop))
    return path


def test_every_field_is_read(tmp_path):
    (shop,) = read_json(written(tmp_path / "plant.json"))
    assert shop.name == "plant" and shop.first == 0
    assert shop.times.tolist() == [[12, 7, 0], [9, 2, 1]] and shop.machines.tolist() == [[0, 1, -1], [2, 0, 2]]
    assert shop.release.tolist() == [5, 0] and shop.machine_release.tolist() == [0, 60, 0]
    assert shop.waits.tolist() == [[3, 0, 0], [0, 0, 0]]
    assert shop.fixed.tolist() == [[NOT_FIXED] * 3, [-4, NOT_FIXED, NOT_FIXED]]


def test_files_and_folders_are_evaluated(tmp_path):
    path = written(tmp_path / "plant.json")
    (instance_set,) = JobShopSets().load(str(path))
    # Job 0: 5..17 on machine 0, from 20 on for machine 1, which is free from 60 on. Job 1 goes on at 5.
    assert instance_set.true_cost(torch.tensor([0]), torch.tensor([[0, 0, 1, 1]])).tolist() == [67]
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    written(tmp_path / "later.json", lambda shop: shop["jobs"][1]["operations"].pop())
    (tmp_path / "b.txt").write_text("1 2\n0 1 1 2\n")
    found = JobShopSets().load(str(tmp_path))
    assert [each.names for each in found] == [["b"], ["later"], ["packed", "plant"]]


WRONG = {  # what is changed -> to what (None: it is missing), the rule
    "no list": ("jobs", 3, "jobs must be a list of jobs, got '3'"),
    "no machines": ("machines", None, "the shop: it lacks machines"),
    "a job": ("jobs.1", 7, "job 1: it must be an object with due, operations, release, weight, got '7'"),
    "its operations": ("jobs.0.operations", 7, "job 0: operations must be a list, got '7'"),
    "a time": (
        "jobs.0.operations.1.time",
        2.5,
        r"job 0, operation 1: time must be a whole number below 4.61\S+, got '2.5'",
    ),
    "a wait": ("jobs.0.operations.0.wait", -1, "job 0, operation 0: waits must not be negative, got -1"),
    "a last wait": ("jobs.1.operations.2.wait", -1, "job 1, operation 2: waits must not be negative, got -1"),
    "a machine": ("jobs.1.operations.0.machine", 3, "job 1, operation 0: there are 3 machines, not one for 3"),
    "below": ("jobs.1.operations.0.machine", -1, "machine must be at least 0, got -1"),
    "releases": ("machine_release", [1], r"machine_release must be a list of 3 numbers, got '\[1"),
    "fixed": ("jobs.0.operations.1.start", 9, "it is fixed, the operation before it is not"),
    "unknown": ("nmae", "x", "the shop: unknown key 'nmae': known are jobs, machine_release, machines$"),
    "setup times": ("jobs.0.setup", 9, "setup times are not supported .* PyJobShop and OR-Tools"),
    "a weight": ("jobs.0.weight", 9, "job 0: it has a weight, and no due date"),
    "flexible": (
        "jobs.0.operations.0.machine",
        [0, 1],
        "job 0: flexible shops have no JSON here; problem=fjsp takes .fjs files and arrays",
    ),
    "alternatives": (
        "jobs",
        [[[{"machine": 0, "processing": 4}, {"machine": 1, "processing": 6}]]],
        "job 0: flexible shops have no JSON here; problem=fjsp takes .fjs files and arrays",
    ),
    "pairs": ("jobs.1", [[0, 4], [1, 6]], r"job 1: it must be an object with .*, got '\[\[0, 4\], \[1, 6\]\]'"),
    "null in a list": ("machine_release", [0, None, 0], r"machine_release\[1\] must be a whole number .*got 'null'"),
    "a list of machines": ("machines", [{"breaks": [[4, 6]]}, {}], "machines must be how many .*: calendars are not"),
    "infinity": ("jobs.0.due", 1e400, "job 0: due must be a whole number below 4.6"),
    "many machines": ("machines", 10**12, "machines must be 1..1000000, got 1000000000000"),
    "nothing": ("jobs", [{"operations": []}], "there is no operation to be scheduled"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case, tmp_path):
    place, value, rule = WRONG[case]

    def change(shop):
        *way, last = (int(key) if key.isdigit() else key for key in place.split("."))
        for key in way:
            shop = shop[key]
        shop[last] = value
        if value is None:
            del shop[last]

    with pytest.raises(ValueError, match=rf"bad\.json.*{rule}"):
        JobShopSets().load(str(written(tmp_path / "bad.json", change)))


@pytest.mark.parametrize(
    ("place", "key", "answer"),
    [
        ("job", "deadline", "hard deadlines are not supported; `due` of a job is what problem.objective=weighted_tard"),
        ("job", "Release-Date", "`release` of a job says from when"),
        ("job", "due_date", "`due` of a job is when"),
        ("job", "no_wait", "jobs that must not wait are not supported here; PyJobShop"),
        ("operation", "duration", "`time` of an operation is how long"),
        ("operation", "eligible machines", "flexible shops have no JSON here"),
        ("operation", "setup_times", "setup times are not supported here; PyJobShop"),
        ("operation", "transport_time", "transport is the `wait` of the operation before it"),
        ("shop", "calendars", "calendars are not supported; `machine_release`"),
        ("shop", "blocking", "blocking and buffers are not supported here"),
        ("shop", "batches", "batches are not supported here"),
    ],
)
def test_keys_of_other_programs_are_answered(place, key, answer, tmp_path):
    def change(shop):
        {"shop": shop, "job": shop["jobs"][0], "operation": shop["jobs"][0]["operations"][0]}[place][key] = [1]

    with pytest.raises(ValueError, match=f"unknown key '{key}': {answer}"):
        read_json(written(tmp_path / "bad.json", change))


def test_null_and_remarks_change_nothing_and_numbers_may_be_floats(tmp_path):
    def change(shop):
        shop |= {"name": "order 17", "comment": {"due": 3}, "machines": 3.0, "machine_release": [0.0, 6e1, 0]}
        shop["jobs"][0] |= {"id": 4, "due": None, "weight": None, "release": 5.0}
        shop["jobs"][1] |= {"description": None, "release": None}
        shop["jobs"][0]["operations"][0] |= {"name": "cut", "time": 12.0, "machine": 0.0, "start": None}

    (plain,), (other,) = read_json(written(tmp_path / "x.json")), read_json(written(tmp_path / "x.json", change))
    for name, array in plain.arrays().items():
        assert array.tolist() == other.arrays()[name].tolist() and array.dtype == other.arrays()[name].dtype


def test_what_is_not_json_is_refused(tmp_path):
    (tmp_path / "cut.json").write_text('{"machines": 3, ')
    with pytest.raises(ValueError, match=r"cut\.json: this cannot be read as JSON: .*line 1 column 17"):
        JobShopSets().load(str(tmp_path / "cut.json"))
    for text, rule in (
        ("[" * 100_000, "this cannot be read as JSON"),
        ('{"machines": 1, "machines": 2, "jobs": []}', ".*: a key comes twice in one object: 'machines'"),
        ('{"machines": ' + "9" * 9000 + ', "jobs": [1]}', "machines must be a whole number below 4.61"),
        (" ", "the file is empty"),
    ):
        (tmp_path / "cut.json").write_text(text)
        with pytest.raises(ValueError, match=rf"^\S+cut\.json: {rule}"):
            JobShopSets().load(str(tmp_path / "cut.json"))
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="the shop: it must be an object with jobs, machine_release, machines, got"):
        JobShopSets().load(str(tmp_path / "list.json"))
