"""Total flow time and weighted tardiness of job shops, flexible ones included."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import gumbeldore
from gumbeldore.evaluation import tables
from gumbeldore.evaluation.solved_sets import SolvedSet, have_gaps, summarise
from gumbeldore.instance_set import mean_reference
from gumbeldore.reporting.charts import best_so_far
from gumbeldore.testing import policy_contract, problem_contract
from gumbeldore.training.incumbents import Incumbents
from gumbeldore.training.validation import quality_of
from models.job_shop import JobShop
from models.lookahead import due_date_features
from problems.fjsp import FJSP
from problems.jssp import JSSP
from problems.jssp.instances import random_general_instances, random_instances, work_bound
from problems.jssp.objectives import FACTORS, FLOW, MAKESPAN, OBJECTIVES, TARDINESS, with_due_dates, work_of
from problems.jssp.originals import Original
from problems.jssp.sets import JobShopSets
from problems.jssp.solver import solve
from problems.solvers.answer import Options
from tests.helpers.networks import awake
from tests.helpers.schedules import plain_general_cost

LATE = [FLOW, TARDINESS]


def shop_of(jobs, machines, objective, kind=JSSP, **options):
    return kind([[jobs, machines]], [[jobs, machines]], objective=objective, **options)


def drawn(n, jobs, machines, objective, seed=0, far=1):
    """General instances with tight due dates, releases `far` times as late, and random sequences of their jobs."""
    generator = torch.Generator().manual_seed(seed)
    problem = shop_of(jobs, machines, objective, general=1.0)
    instance = problem.generate(n, generator)
    if objective == TARDINESS:
        due = (instance.due * torch.rand(n, jobs, generator=generator)).floor()
        instance = instance._replace(due=due.masked_fill(instance.weight == 0, 0))
    released = {name: far * getattr(instance, name) for name in ("release", "machine_release")}
    instance = instance._replace(**released, due=instance.due + (far - 1) * instance.release)
    order = torch.rand(n, jobs * machines, generator=generator).argsort(dim=1)
    return instance, (instance.operations // instance.times.shape[2]).gather(1, order)


# ---- costs


@pytest.mark.parametrize("objective", LATE)
@pytest.mark.parametrize("kind", [JSSP, FJSP])
def test_contract(objective, kind):
    problem_contract(shop_of(4, 3, objective, kind, chronological=True))
    problem_contract(shop_of(4, 3, objective, kind, window=2, jobs_in_view=2), seed=1)


@pytest.mark.parametrize("objective", LATE)
def test_costs_equal_those_of_plain_python(objective):
    instance, actions = drawn(40, 5, 4, objective)
    costs = shop_of(5, 4, objective).cost(instance, actions)
    assert costs.tolist() == [plain_general_cost(instance, row, actions[row].tolist()) for row in range(40)]
    assert costs.min() > 0 and not torch.equal(costs, shop_of(5, 4, "makespan").cost(instance, actions))


def test_flow_time_counts_from_the_release_of_the_job_also_when_some_of_it_is_fixed():
    times, machines = np.array([[[4, 5], [3, 6]]]), np.array([[[0, 1], [1, 0]]])
    fixed = np.array([[[2, np.nan], [np.nan, np.nan]]])
    release = np.array([[1, 0]])
    whole = JobShopSets(FLOW).from_arrays(
        {"times": times, "machines": machines, "release": release, "fixed": fixed}, "x"
    )
    # Job 0: 2 to 6, then machine 1 from 6 to 11. Job 1: machine 1 from 0 to 3, machine 0 from 6 to 12.
    cost = whole.true_cost(torch.tensor([0]), torch.tensor([[1, 0, 1]]))
    assert cost.tolist() == [(11 - 1) + (12 - 0)]
    all_fixed = np.array([[[2, 6], [np.nan, np.nan]]])
    arrays = {"times": times, "machines": machines, "fixed": all_fixed, "due": np.array([[9, 20]])}
    late = JobShopSets(TARDINESS).from_arrays(arrays | {"weight": np.array([[3, 1]])}, "x")
    # Job 0 ended at 11, 2 late: that costs 6 whatever is decided. Job 1 waits for machine 1 until 11.
    assert late.true_cost(torch.tensor([0]), torch.tensor([[1, 1]])).tolist() == [6 + 0]
    pytest.importorskip("ortools")
    answer = solve(Original(*(field[0] for field in late.originals)), Options(5.0, 0, None))
    assert answer.lowest == answer.highest == 6


@pytest.mark.parametrize(("due", "late"), [(-10, 0), (-15, 0), (-16, 3), (-40, 75)])
def test_a_job_that_ended_in_the_past_costs_what_it_was_late_then(due, late, tmp_path):
    """It ended at -15; the other job has two operations, so that the finished one has a place without an operation."""
    past = {"due": due, "weight": 3, "operations": [{"machine": 0, "time": 5, "start": -20}]}
    rest = {"due": 9, "operations": [{"machine": 0, "time": 3}, {"machine": 1, "time": 8}]}
    (tmp_path / "shop.json").write_text(json.dumps({"machines": 2, "jobs": [past, rest]}))
    (found,) = JobShopSets(TARDINESS).load(str(tmp_path / "shop.json"))
    assert found.costs(torch.tensor([[1, 1]])).tolist() == [late + 2]
    pytest.importorskip("ortools")
    answer = solve(Original(*(field[0] for field in found.originals)), Options(5.0, 0, None))
    assert answer.lowest == answer.highest == late + 2
    (makespan,) = JobShopSets().load(str(tmp_path / "shop.json"))
    assert makespan.costs(torch.tensor([[1, 1]])).tolist() == makespan.lower_bounds.tolist() == [11]


# ---- random due dates


def test_due_dates_are_those_of_singer_and_pinedo():
    problem = shop_of(10, 4, TARDINESS)
    instance = problem.generate(300, torch.Generator().manual_seed(0))
    counts = [(instance.weight == weight).sum(dim=1).unique().tolist() for weight in (4, 2, 1)]
    assert counts == [[2], [6], [2]]
    work = instance.times.sum(dim=2)
    fits = torch.stack([((factor * work).floor() == instance.due).all(dim=1) for factor in FACTORS])
    assert (fits.sum(dim=0) >= 1).all() and (fits.sum(dim=1) > 60).all()
    assert len(instance.weight.unique(dim=0)) > 200  # any job may have any weight
    released = random_general_instances(20, 5, 4, torch.Generator().manual_seed(0))
    late = with_due_dates(released, torch.Generator().manual_seed(0))
    assert (late.due >= released.release + (1.3 * work_of(released)).floor()).all()
    flow = shop_of(4, 3, FLOW, general=1.0).generate(5, torch.Generator().manual_seed(0))
    assert torch.equal(flow.due, flow.release) and flow.due.any() and (flow.weight == 1).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_validation_instances_are_the_same_however_many(objective):
    few, many = JobShopSets(objective).validation(10, 4, 3), JobShopSets(objective).validation(10, 4, 7)
    assert torch.equal(many.originals.due[:3], few.originals.due)
    assert torch.equal(many.originals.times, JobShopSets().validation(10, 4, 7).originals.times)
    assert bool(many.originals.weight.any()) == (objective != "makespan") and many.pooled == (objective == TARDINESS)


# ---- files and arrays


def test_due_dates_in_files_and_arrays(tmp_path):
    shop = {
        "machines": 2,
        "jobs": [
            {"due": 9, "weight": 3, "operations": [{"machine": 0, "time": 4}, {"machine": 1, "time": 6}]},
            {"due": -2, "operations": [{"machine": 1, "time": 5}]},
            {"operations": [{"machine": 1, "time": 2}]},
        ],
    }
    (tmp_path / "shop.json").write_text(json.dumps(shop))
    (found,) = JobShopSets(TARDINESS).load(str(tmp_path / "shop.json"))
    assert found.originals.due.tolist() == [[9, -2, 0]] and found.originals.weight.tolist() == [[3, 1, 0]]
    assert found.true_cost(torch.tensor([0]), torch.tensor([[0, 1, 0, 2]])).tolist() == [3 * (11 - 9) + (5 + 2)]
    (same,) = JobShopSets().load(str(tmp_path / "shop.json"))  # the makespan
    assert same.true_cost(torch.tensor([0]), torch.tensor([[0, 1, 0, 2]])).tolist() == [13]
    result = gumbeldore.load_instances(
        shop_of(2, 2, TARDINESS), times=[[4, 6], [5, 2]], machines=[[0, 1], [1, 0]], due=[8, 3]
    )
    assert result[0].originals.weight.tolist() == [[1, 1]] and result[0].references.isnan().all()


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({}, "x/0: the weighted tardiness needs due dates"),
        ({"due": np.ones((1, 2)), "weight": -np.ones((1, 2))}, "job 0: weight must not be negative, got -1"),
        ({"due": np.full((1, 2), 2e12)}, r"job 0: due must be within 1e\+12, got 2000000000000"),
        (
            {"due": np.ones((1, 3))},
            r"x: due must be whole numbers \[1, 2\] \(one for each job; a weight",
        ),
        (
            {"due": np.array([[3, np.nan]])},
            r"x: due must be .*a weight of 0 stands for no due date\), got nan",
        ),
        (
            {"due": np.ones((1, 2)), "weight": np.zeros((1, 2))},
            "x/0: the weighted .* of jobs whose `weight` is above 0",
        ),
    ],
)
def test_wrong_due_dates_are_refused(more, rule):
    arrays = {"times": np.ones((1, 2, 2)), "machines": np.array([[[0, 1], [1, 0]]])}
    with pytest.raises(ValueError, match=rule):
        JobShopSets(TARDINESS).from_arrays(arrays | more, "x")


def test_each_instance_needs_due_dates():
    """Else one would cost its makespan, and the others their tardiness."""
    arrays = {"times": np.ones((2, 2, 2)), "machines": np.array([[[0, 1], [1, 0]]] * 2), "due": np.ones((2, 2))}
    with pytest.raises(ValueError, match="x/0: instance 1: the weighted tardiness needs due dates"):
        JobShopSets(TARDINESS).from_arrays(arrays | {"weight": np.array([[1, 2], [0, 0]])}, "x")


def test_makespans_alone_are_imitated_backwards():
    shop, actions = random_instances(4, 3, 2, torch.Generator().manual_seed(0)), torch.tensor([[0, 1, 2, 2, 1, 0]] * 4)
    turned = shop_of(3, 2, MAKESPAN, reversal=True).augment(shop, actions, 0, torch.Generator().manual_seed(0))
    same = shop_of(3, 2, TARDINESS, reversal=True).augment(shop, actions, 0, torch.Generator().manual_seed(0))
    assert not torch.equal(turned[0].times, shop.times)
    assert torch.equal(same[0].times, shop.times) and torch.equal(same[1], actions)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="objective must be one of makespan, total_flow_time, weighted_tardiness, got"):
        shop_of(3, 2, "lateness")
    with pytest.raises(ValueError, match="due_dates needs lookahead"):
        JobShop(8, 1, 2, 8, lookahead=False, order_loss=0.0, due_dates=True)


# ---- gaps


def solved(costs):
    costs = torch.tensor(costs, dtype=torch.float64)
    return SolvedSet.without_policy(torch.zeros(len(costs), 1, dtype=torch.int64), costs, 1.0)


def test_gaps_are_parts_of_the_sum_where_a_reference_may_be_0():
    """300 instead of 200 in all is 50% more, though one instance has a reference of 0; one reaches its reference."""
    arrays = {"times": np.ones((2, 2, 2)), "machines": np.array([[[0, 1], [1, 0]]] * 2), "due": np.ones((2, 2))}
    found = JobShopSets(TARDINESS).from_arrays(arrays | {"cost": np.array([0.0, 200.0])}, "x")
    assert found.references.tolist() == [0, 200]  # a value, not "unknown"
    assert found.gaps(torch.tensor([0.0, 300.0])).tolist() == [0.0, 0.5]  # of each its own
    assert math.isnan(found.gaps(torch.tensor([100.0, 200.0]))[0])
    results = {"greedy": [solved([100.0, 200.0])], "wor": [solved([0.0, 150.0])]}
    assert summarise(results["greedy"], [found]).mean_gap == pytest.approx(300 / 200 - 1)
    assert tables.reached_lines(results, [found]) == ["reaches the reference: greedy 1 of 2, wor 2 of 2"]
    assert tables.reference_note([found]).startswith("gap of the summed costs to: ")
    nothing = found._replace(references=torch.zeros(2, dtype=torch.float64))
    assert summarise([solved([0.0, 3.0])], [nothing]).mean_gap is None
    assert tables.reference_note([nothing]).startswith("no gap, as the references sum to 0: ")
    assert tables.reached_lines({"greedy": [solved([0.0, 3.0])]}, [nothing]) == ["reaches the reference: greedy 1 of 2"]
    plain = JobShopSets().from_arrays(
        {name: arrays[name] for name in ("times", "machines")} | {"cost": np.array([4.0, 5.0])}, "x"
    )
    assert plain.gaps(torch.tensor([8.0, 5.0])).tolist() == [1.0, 0.0] and not tables.reached_lines(results, [plain])


def two_sizes(*references):
    """A set of two shops of 2 jobs, and one of a shop of 3 jobs."""
    return [
        JobShopSets(TARDINESS).from_arrays(
            {
                "times": np.ones((len(costs), jobs, 1)),
                "machines": np.zeros((len(costs), jobs, 1)),
                "due": np.ones((len(costs), jobs)),
                "cost": np.array(costs),
            },
            f"of {jobs} jobs",
        )
        for jobs, costs in zip((2, 3), references, strict=True)
    ]


@pytest.mark.parametrize(
    ("references", "costs", "gap"),
    [
        ([[2.5, 1.5], [6000.0]], [[5.0, 1.5], [6000.0]], 6006.5 / 6004 - 1),
        ([[0.0, 0.0], [10.0]], [[3.0, 0.0], [12.0]], 15 / 10 - 1),  # one size has no gap, both together have
        ([[0.0, 0.0], [0.0]], [[3.0, 0.0], [12.0]], math.nan),
    ],
)
def test_the_gap_of_the_summed_costs_is_one_ratio_over_all_sizes(references, costs, gap):
    """Wherever it is shown, or a policy or a search is chosen by it."""
    instance_sets, each = two_sizes(*references), [torch.tensor(x, dtype=torch.float64) for x in costs]
    problem, found = shop_of(3, 1, TARDINESS), [solved(x) for x in costs]
    shown = {
        "evaluation": summarise(found, instance_sets).mean_gap,
        "validation": quality_of(problem, instance_sets, each).gap,
        "best solutions": Incumbents(instance_sets, [], each).quality().gap,
    }
    for where, value in shown.items():
        assert (math.nan if value is None else value) == pytest.approx(gap, nan_ok=True), where
    assert have_gaps(instance_sets) == (gap == gap)
    if have_gaps(instance_sets):
        assert best_so_far(found, instance_sets)[1][-1] == pytest.approx(gap)
        scale = mean_reference(instance_sets)  # as the rewards of a race have it
        parts = [x.gaps(y, torch.arange(len(y)), scale) for x, y in zip(instance_sets, each, strict=True)]
        assert torch.cat(parts).mean().item() == pytest.approx(gap)


def test_a_cost_of_0_is_a_reference_of_tardiness():
    shop = {"times": [[3], [4]], "machines": [[0], [0]], "due": [3, 5], "cost": 0.0}
    result = gumbeldore.solve("jssp_tardiness", **shop, method="greedy")
    assert result.reference == 0 and result.cost > 0 and result.gap is None and "inf" not in repr(result)
    assert gumbeldore.solve("jssp_tardiness", **shop | {"due": [3, 7]}, method="greedy").gap == 0
    with pytest.warns(UserWarning, match="the reference cost 0 is taken as unknown"):
        assert gumbeldore.solve("jssp", **shop | {"due": [0, 0]}, method="greedy").kind != ""  # a makespan's bound


# ---- the network


def network(**options):
    torch.manual_seed(0)
    arguments = {"width": 16, "blocks": 1, "heads": 4, "feedforward": 32, "lookahead": True, "order_loss": 0.5}
    return awake(JobShop(**arguments | {"due_dates": True} | options))


@pytest.mark.parametrize("options", [{}, {"window": 2, "jobs_in_view": 3}, {"general": 1.0}])
def test_policy_contract(options):
    policy_contract(network(), shop_of(4, 3, TARDINESS, **options))


@pytest.mark.parametrize("far", [1, 50])
@pytest.mark.parametrize("step", [0, 5, 15])
def test_features_equal_plain_loops(step, far):
    instance, actions = drawn(4, 5, 4, TARDINESS, seed=2, far=far)
    instance = instance._replace(due=instance.due - 10_000 * (torch.arange(5) == 3))  # job 3 is late in any case
    problem, policy = shop_of(5, 4, TARDINESS), network()
    state = policy.canonical_state(instance, problem.replay(instance, actions[:, :step]))
    features = torch.stack(due_date_features(policy.encode(instance), state), dim=2)
    ops = instance.times.shape[2]
    for row in range(4):
        bound = work_bound(instance)[row].item()
        unit = bound / 4
        released, machine_released = instance.release[row].tolist(), instance.machine_release[row].tolist()
        times, waits = instance.times[row].tolist(), instance.waits[row].tolist()
        machines, due = instance.machines[row].tolist(), instance.due[row].tolist()
        weight = instance.weight[row]
        next_op = state.next_op[row].tolist()
        remaining = [(job, op) for job in range(5) for op in range(next_op[job], ops)]
        starts = state.job_free[row].tolist()
        now = min(starts[job] for job, _ in remaining)
        for place, number in enumerate(state.view[row].tolist()):
            job, op = divmod(number, ops)
            before = sum(times[job][o] + waits[job][o] for o in range(next_op[job], op))
            after = waits[job][op] + sum(times[job][o] + waits[job][o] for o in range(op + 1, ops))
            takes = times[job][op] > 0  # an operation of time 0 is alone, on no machine
            mine = [times[j][o] for j, o in remaining if machines[j][o] == machines[job][op] and times[j][o]]
            busy = state.machine_free[row, machines[job][op]].item() - now if takes else 0
            late = starts[job] + before + times[job][op] + after - max(due[job], -bound)
            load = sum(mine) if takes else 0
            relative = weight[job].item() / weight.mean().item() * unit
            wait, first = starts[job] - now, next_op[job]
            if starts[job] == max(released[job], machine_released[machines[job][first]] if times[job][first] else 0):
                wait = min(wait, bound)  # nobody waits longer for a release than the work takes
            late = max(min(late, max(late - (starts[job] - now - wait), bound)), -bound)
            if takes and busy + now == machine_released[machines[job][op]]:
                busy = min(busy, bound)
            expected = [wait, wait + before, after, max(0, busy), load, late, max(0, late)]
            assert features[row, place].mul(unit).tolist() == pytest.approx([*expected, relative], abs=1e-3)


def test_the_time_that_has_passed_counts():
    """The same shop later is another one: due dates stay where they are."""
    instance, actions = drawn(4, 5, 4, TARDINESS, seed=2)
    state = shop_of(5, 4, TARDINESS).replay(instance, actions[:, :3])
    later = state._replace(job_free=state.job_free + 500, machine_free=state.machine_free + 500)
    for due_dates in (True, False):
        policy = network(due_dates=due_dates)
        now, then = (policy(policy.encode(instance), each) for each in (state, later))
        assert torch.allclose(now, then, atol=1e-4) == (not due_dates)


@pytest.mark.parametrize("step", [0, 6])
@pytest.mark.parametrize("field", ["due", "lateness", "release", "machine_release"])
def test_a_date_far_away_is_no_date(field, step):
    """What lies beyond all work changes no decision of today: a due date, a lateness, a release of a job or machine."""
    drawn = with_due_dates(
        random_instances(3, 6, 4, torch.Generator().manual_seed(0)), torch.Generator().manual_seed(1)
    )
    actions = torch.arange(4).repeat(3, 2)[:, : 0 if field == "machine_release" else step]  # job 5 has not begun
    policy, found = network(), []
    for date in (3_000.0, 3_000_000.0):
        name, date = ("due", -date) if field == "lateness" else (field, date)
        old = getattr(drawn, name)
        instance = drawn._replace(**{name: torch.cat([old[:, :-1], torch.full_like(old[:, -1:], date)], dim=1)})
        if field == "release":
            instance = instance._replace(due=instance.due + instance.release)
        state = shop_of(6, 4, TARDINESS).replay(instance, actions)
        found.append(policy(policy.encode(instance), state))
    assert torch.equal(*found)


def test_a_job_without_a_date_may_have_one_far_away():
    """Every second job has no due date, as weight 0 and as a date that no plan misses."""
    generator = np.random.default_rng(1)
    times, machines = generator.integers(1, 99, (8, 5)), generator.random((8, 5)).argsort(1)
    costs = {}
    for due, weight in ((200, 0), (10**6, 1), (10**12, 1)):
        dates, weights = np.full(8, 200), np.ones(8, int)
        dates[::2], weights[::2] = due, weight
        shop = {"times": times, "machines": machines, "due": dates, "weight": weights}
        costs[due] = gumbeldore.solve("jssp_tardiness", **shop, method="greedy", precision="float32").cost
    assert costs[10**6] == costs[10**12] and costs[10**6] < 1.2 * costs[200]
