"""What a problem says its instances are is checked, and gaps to what it says the best costs are."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore import methods, solve
from gumbeldore.evaluation.sources import load
from gumbeldore.instance_set import checked, gaps_to
from tests.helpers.trees import TablePolicy, TreeProblem

PROBLEM = TreeProblem()
(GOOD,) = PROBLEM.validation(5, seed=0)


class Forests(TreeProblem):
    """A problem whose `load` gives what the test wants."""

    def __init__(self, found):
        self.found = found

    def load(self, source, limit):
        return self.found


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (GOOD, "must return a list with an InstanceSet for each size, got InstanceSet"),
        ([], r"for each size, got \[\]"),
        ([GOOD, GOOD.instances], r"got \['InstanceSet', 'Trees'\]"),
        ([GOOD._replace(kinds=[])], "one has 5 names and 0 kinds"),
        ([GOOD._replace(names=["a"], kinds=[""])], "one has 1 names and 5 instances"),
        ([GOOD._replace(references=GOOD.references.numpy())], r"must be a float64 Tensor \[5\], got .*ndarray"),
        ([GOOD._replace(references=GOOD.references.float())], r"float64 Tensor \[5\], got torch.float32 \[5\]"),
        ([GOOD._replace(lower_bounds=GOOD.references[:3])], r"lower_bounds must be a float64 Tensor \[5\], .* \[3\]"),
        ([GOOD, GOOD], "must return 7 instances at most, got 10"),
    ],
)
def test_what_a_problem_loads_is_checked(found, rule):
    with pytest.raises(ValueError, match=f"^Forests.load .*{rule}"):
        load(Forests(found), "anything", 7)


def test_references_of_0_are_none():
    costs = torch.tensor([0.0, 2.0, 0.0, math.nan, -1.0], dtype=torch.float64)
    kinds = ["optimal", "optimal", "optimal", "", "optimal"]
    (found,) = checked([GOOD._replace(references=costs, kinds=kinds, solutions={0: None, 1: None})], "load")
    assert found.references.isnan().tolist() == [True, False, True, True, False]
    assert found.kinds == ["", "optimal", "", "", "optimal"] and found.solutions == {1: None}
    assert len(found.warnings) == 1 and found.warnings[0].startswith("validation/0 and 1 more: the reference cost 0")


def test_gaps_are_above_0_where_solutions_are_worse_also_if_costs_are_negative():
    references = torch.tensor([4.0, 4.0, -4.0, -4.0, math.nan], dtype=torch.float64)
    costs = torch.tensor([5.0, 3.0, -3.0, -5.0, 1.0], dtype=torch.float64)
    assert gaps_to(references, costs)[:4].tolist() == [0.25, -0.25, 0.25, -0.25]
    assert gaps_to(references, costs)[4].isnan()


def test_a_result_has_the_same_gap():
    costs = torch.full((5,), -100.0, dtype=torch.float64)
    known = Forests([GOOD._replace(references=costs, kinds=["optimal"] * 5)])
    for found in solve((known, TablePolicy()), "anything", method="greedy"):
        assert found.gap == pytest.approx((found.cost + 100) / 100) and found.gap > 0


def test_a_pair_of_problem_and_policy_solves():
    problem, policy = Forests([GOOD]), TablePolicy()
    found = solve((problem, policy), "anything", method="wor", beam_width=4, num_rounds=2)
    assert [each.name for each in found] == GOOD.names and [each.gap for each in found] == [None] * 5
    solve((problem, policy), "anything", method=methods.Gumbeldore(4, 2, 0.5))
    with pytest.raises(ValueError, match=r"no step size of a training: method must be methods.Gumbeldore\(...\)"):
        solve((problem, policy), "anything")
    with pytest.raises(ValueError, match=r"a pair must be of a Problem and a Policy, got \['TablePolicy', 'Forests'\]"):
        solve((policy, problem), "anything")
