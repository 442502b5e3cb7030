"""Lines of the table on the terminal."""

from __future__ import annotations

import math

import torch

from gumbeldore.evaluation import tables
from tests.helpers.evaluations import instance_set_of


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
