"""InstanceSets: what a problem loads is checked; as a pool solves them: keys of instances, samples, parts, the time."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore import SearchPool, methods, search, solve
from gumbeldore.evaluation import solved_sets as evaluation
from gumbeldore.evaluation.parts import SEARCH, Parts
from gumbeldore.evaluation.solved_sets import SolvedSet
from gumbeldore.evaluation.sources import load
from gumbeldore.instance_set import checked, gaps_to
from models.bq_tsp import BQ
from problems.tsp import TSP
from tests.helpers.trees import TablePolicy, TreeProblem


def test_samples_are_all_costs_in_the_order_they_were_found():
    """Five nodes have 24 tours, so eight rounds of four find them all; chunks of two instances."""
    problem, policy = TSP(5), BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0)
    (instance_set,) = problem.validation(5, seed=0)
    config = methods.WithoutReplacement(4, 8)
    pool = SearchPool(problem, policy, search_batch_rows=8)
    found = evaluation.solve_set(pool, instance_set, config, seed=3)
    keys = evaluation.instance_keys(instance_set, 3)
    alone = search(problem, policy, instance_set.instances, config, keys=keys)
    costs = instance_set.true_cost(torch.arange(5).repeat_interleave(alone.valid.shape[1]), alone.actions.flatten(0, 1))
    for i, (valid, cost) in enumerate(zip(alone.valid, costs.view(alone.valid.shape), strict=True)):
        assert torch.equal(found.samples[i, :24], cost[valid].float()) and found.found[i] == 24
    assert found.samples.shape == (5, 24) and found.samples.dtype == torch.float32
    assert torch.equal(found.samples.amin(dim=1), found.costs.float())


def test_an_instance_has_the_same_key_wherever_it_stands_and_equal_ones_are_numbered():
    (instance_set,) = TSP(5).validation(6, seed=0)
    keys = evaluation.instance_keys(instance_set, 3)
    assert len({*keys.tolist(), *evaluation.instance_keys(instance_set, 4).tolist()}) == 12
    for rows in ([4], [5, 0, 3]):
        assert torch.equal(evaluation.instance_keys(instance_set.part(torch.tensor(rows)), 3), keys[rows])
    ones = torch.ones(6, 2)
    odd = ones.bfloat16(), torch.rand(6, requires_grad=True), torch.ones(6, 0), ones > 0
    assert len(set(evaluation.instance_keys(instance_set._replace(instances=odd), 3).tolist())) == 6
    twice = evaluation.instance_keys(instance_set.part(torch.tensor([2, 1, 2, 2])), 3).tolist()
    assert twice[:2] == keys[[2, 1]].tolist() and len(set(twice)) == 4


def test_parts_of_another_division_leave_no_files_that_would_overlap(tmp_path):
    solved = SolvedSet.without_policy(torch.zeros(2, 3), torch.ones(2), 1.0)
    Parts(tmp_path).add(slice(0, 2), {SEARCH: solved})
    parts = Parts(tmp_path)
    parts.keep_only([slice(1, 3)])
    assert len(parts) == 0
    parts.add(slice(1, 3), {SEARCH: solved})
    assert Parts(tmp_path).instances().tolist() == [1, 2]


def test_the_time_of_a_search_does_not_contain_the_start_of_the_workers(monkeypatch):
    problem = TSP(5)
    (instance_set,) = problem.validation(2, seed=0)
    pool = SearchPool(problem, BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0))
    called = []
    monkeypatch.setattr(pool, "prepare", lambda: called.append("prepare"))
    monkeypatch.setattr("time.perf_counter", lambda: float(called.append("clock") or 0))
    evaluation.solve_set(pool, instance_set, methods.Greedy(), seed=0)
    assert called[:2] == ["prepare", "clock"]


def test_chunks_that_found_less_end_in_nan():
    parts = Parts()
    for rows, found in (slice(0, 2), torch.ones(2, 3)), (slice(2, 3), torch.ones(1, 5)):
        solved = SolvedSet.without_policy(torch.zeros(len(found), 3), torch.ones(len(found)), 1.0)
        parts.add(rows, {SEARCH: solved._replace(samples=found)})
    samples = parts.joined()[SEARCH].samples
    assert samples.isnan().sum(dim=1).tolist() == [2, 2, 0] and samples.nansum(dim=1).tolist() == [3, 3, 5]


# ---- what a problem loads

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
        (
            [GOOD._replace(lower_bounds=GOOD.references[:3])],
            r"lower_bounds must be a float64 Tensor \[5\], got .* \[3\]",
        ),
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
