"""Solutions that `solve` improves: results, and plans of a shop's own."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import gumbeldore
from gumbeldore import methods

SHOP = {"times": [[3, 2, 2], [2, 1, 4], [4, 3, 1]], "machines": [[0, 1, 2], [0, 2, 1], [1, 2, 0]]}
# One job after the other: as bad as a plan can be.
STARTS = [[0, 3, 5], [7, 9, 10], [14, 18, 21]]
POLICY = gumbeldore.load_policy("jssp")
NO_STEPS = methods.LocalSearch(steps=1)  # the cost of the start


def drawn(count, jobs=8, machines=5):
    random = np.random.default_rng(3)
    times, machine = random.integers(1, 99, (count, jobs, machines)), random.random((count, jobs, machines))
    return {"times": times, "machines": machine.argsort(axis=2)}


def test_a_plan_is_improved_and_a_plan_that_is_as_good_stays():
    found = gumbeldore.solve(POLICY, **SHOP, start=STARTS)  # method="local_search" goes without saying
    assert found.cost == 11 < gumbeldore.solve(POLICY, **SHOP, start=STARTS, method=NO_STEPS).cost <= 22
    again = gumbeldore.solve(POLICY, **SHOP, start=found)
    assert again.schedule == found.schedule


def test_a_result_its_schedule_its_file_and_its_starts_are_the_same_start(tmp_path):
    arrays = drawn(1)
    arrays = {name: values[0] for name, values in arrays.items()}
    greedy = gumbeldore.solve(POLICY, **arrays, method="greedy")
    greedy.save(tmp_path / "my.json")
    kept = json.loads((tmp_path / "my.json").read_text())["schedule"]
    starts = [[operation.start for operation in job] for job in greedy.schedule]
    found = [
        gumbeldore.solve(POLICY, **arrays, start=x, method=NO_STEPS) for x in (greedy, greedy.schedule, kept, starts)
    ]
    assert len({each.cost for each in found}) == 1 and found[0].cost <= greedy.cost
    assert all(each.schedule == found[0].schedule for each in found)


def test_each_of_several_instances_has_its_own_start():
    arrays = drawn(3, 12, 8)
    greedy = gumbeldore.solve(POLICY, **arrays, method="greedy")
    found = gumbeldore.solve(POLICY, **arrays, start=[greedy[0], greedy[1].schedule, greedy[2]])
    assert all(after.cost <= before.cost for after, before in zip(found, greedy, strict=True))
    assert sum(each.cost for each in found) < sum(each.cost for each in greedy)


def test_the_order_of_a_plan_that_is_no_longer_feasible_counts():
    late = [[start + 100 * (job == 0) for start in starts] for job, starts in enumerate(STARTS)]  # job 0 comes last
    plan = gumbeldore.solve(POLICY, **SHOP, start=late, method=NO_STEPS)
    overlapping = [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    assert plan.cost > gumbeldore.solve(POLICY, **SHOP, start=overlapping, method=NO_STEPS).cost or plan.cost > 11


def test_fixed_operations_are_part_of_a_plan():
    fixed = np.full((3, 3), np.nan)
    fixed[0, 0] = 0
    found = gumbeldore.solve(POLICY, **SHOP, fixed=fixed, start=STARTS)
    assert found.schedule[0][0].start == 0
    assert found.cost <= gumbeldore.solve(POLICY, **SHOP, fixed=fixed, start=STARTS, method=NO_STEPS).cost


def test_a_start_and_a_time_limit_go_together():
    arrays = {name: values[0] for name, values in drawn(1, 15, 15).items()}
    greedy = gumbeldore.solve(POLICY, **arrays, method="greedy")
    found = gumbeldore.solve(POLICY, **arrays, start=greedy, time_limit=0.5)
    assert 0.4 < found.seconds < 1.5 and found.cost < greedy.cost


def test_a_time_limit_alone_means_the_local_search_of_a_job_shop():
    arrays = {name: values[0] for name, values in drawn(1, 6, 5).items()}
    by_default, named = (gumbeldore.solve(POLICY, **arrays, time_limit=1, **x) for x in ({}, {"method": "gumbeldore"}))
    assert by_default.num_solutions <= 2 < named.num_solutions and by_default.cost <= named.cost
    assert gumbeldore.solve(POLICY, **arrays, time_limit=1, beam_width=4).num_solutions > 2  # a setting of Gumbeldore


def test_reconstruction_takes_a_start_too():
    coords = np.random.default_rng(0).random((20, 2))
    greedy = gumbeldore.solve("tsp20", coords=coords, method="greedy")
    found = gumbeldore.solve("tsp20", coords=coords, start=greedy, method="reconstruct")
    assert found.cost <= greedy.cost
    with pytest.raises(ValueError, match="the start of instance: it must be a Result of gumbeldore.solve"):
        gumbeldore.solve("tsp20", coords=coords, start=greedy.tour, method="reconstruct")


WRONG = {
    "a list of jobs with 3, 3, 3 operations": [STARTS[:2], 7, "plan", [[0, 1], *STARTS[1:]], [0, 1, 2]],
    "operation 1 of job 0 starts before the operation before it": [[[3, 0, 5], *STARTS[1:]]],
    "operation 2 of job 1 is for machine 1, not for 2": [[STARTS[0], [(0, 7, 9), (2, 9, 10), (2, 10, 14)], STARTS[2]]],
    "an operation is (machine, start, end) or a start, got 'soon'": [[["soon", 1, 2], *STARTS[1:]]],
    "an operation is (machine, start, end) or a start, got nan": [[[float("nan"), 1, 2], *STARTS[1:]]],
}


@pytest.mark.parametrize(("rule", "start"), [(rule, start) for rule, each in WRONG.items() for start in each])
def test_what_is_no_plan_says_so(rule, start):
    with pytest.raises(ValueError, match="^the start of instance: .*" + re.escape(rule)):
        gumbeldore.solve(POLICY, **SHOP, start=start)


def test_starts_that_do_not_fit_are_refused():
    other = gumbeldore.solve(POLICY, **{name: values[0] for name, values in drawn(1).items()}, method="greedy")
    with pytest.raises(ValueError, match="the start of instance: it has 40 decisions, not 9"):
        gumbeldore.solve(POLICY, **SHOP, start=other)
    with pytest.raises(ValueError, match="start must be a list with a solution of each of the 2 instances"):
        gumbeldore.solve(POLICY, **drawn(2), start=[other])
    for method in ("greedy", "gumbeldore", "solver", "heuristic", methods.Greedy()):
        name = method if isinstance(method, str) else "Greedy"
        with pytest.raises(ValueError, match=f"start has no effect on method={name}: local_search improves a start"):
            gumbeldore.solve(POLICY, **SHOP, start=STARTS, method=method)
