"""The flexible job shop: each operation goes to one of the machines that can do it."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch

import gumbeldore
from gumbeldore.batches import take
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.testing import problem_contract, random_solution
from gumbeldore.training.dataset import PseudoExperts, Shard, read_shard
from gumbeldore.training.given_experts import read_experts
from problems.fjsp import FJSP, Instance
from problems.fjsp.heuristics import dispatch_flexible
from problems.fjsp.instances import flexible_shop, random_instances
from problems.fjsp.originals import Original, original_of
from problems.fjsp.sets import FlexibleShopSets
from problems.fjsp.solver import solve
from problems.formats.fjs import CANNOT, shop_of_lists
from problems.jssp import best_known
from problems.jssp import instances as job_shops
from problems.jssp.dispatching import RULES
from problems.jssp.instances import lengths_of
from problems.jssp.objectives import OBJECTIVES
from problems.jssp.schedules import check_schedule, schedule
from problems.solvers.answer import Options
from tests.helpers.flexible_shops import drawn, one_size
from tests.helpers.policies import FixedPolicy
from tests.helpers.schedules import one_size as job_shop_of
from tests.helpers.schedules import plain_general_cost, plain_rule
from tests.helpers.tensors import same_tensors

SIZES = [(4, 3), (3, 5), (5, 1), (1, 4), (2, 2)]


# ---- the rules


@pytest.mark.parametrize("size", SIZES)
def test_contract(size):
    for seed, options in enumerate(
        ({}, {"chronological": True, "reversal": True}, {"window": 1, "jobs_in_view": 2}, {"similar_times": 0.0})
    ):
        problem_contract(one_size(*size, **options), seed=seed)


@pytest.mark.parametrize("size", SIZES)
def test_costs_equal_those_of_plain_python(size):
    for seed in (0, 1):
        instance, actions = drawn(20, *size, seed=seed)
        costs = one_size(*size).cost(instance, actions)
        given, jobs = instance.assigned(actions)
        check_schedule(given, schedule(given, jobs))
        for row in range(20):
            assert costs[row] == plain_general_cost(instance, row, actions[row].tolist())
        assert (instance.lower_bound() <= costs).all()


def test_a_machine_that_cannot_is_refused():
    shop = flexible_shop(torch.tensor([[[[3.0, -1.0], [2.0, 4.0]], [[-1.0, -1.0], [-1.0, 5.0]]]]))
    assert one_size(2, 2).cost(shop, torch.tensor([[0, 3, 1]])).tolist() == [9]
    with pytest.raises(ValueError, match="row 0: machine 0 cannot do operation 0 of job 1"):
        one_size(2, 2).cost(shop, torch.tensor([[0, 2, 1]]))


def test_with_one_machine_each_it_is_the_job_shop():
    """Equal costs, decisions with equal masks, and equal edges, as of the job shop with these machines."""
    plain = job_shop_of(5, 4)
    shop = job_shops.random_general_instances(10, 5, 4, torch.Generator().manual_seed(0))
    there = torch.zeros(10, 5 * 6, dtype=torch.bool).scatter_(1, shop.operations, True).view(10, 5, 6, 1)
    times = torch.full((10, 5, 6, 4), -1.0).scatter_(3, shop.machines[..., None], shop.times[..., None])
    instance = flexible_shop(times.masked_fill(~there, -1), shop.release, shop.machine_release, shop.waits)
    actions = random_solution(one_size(5, 4), instance, torch.Generator().manual_seed(1))
    assert torch.equal(one_size(5, 4).cost(instance, actions), plain.cost(shop, actions // 4))
    assert torch.equal(one_size(5, 4).edges(instance, actions), plain.edges(shop, actions // 4))
    state = one_size(5, 4).replay(instance, actions[:, :7])
    same = plain.replay(shop, actions[:, :7] // 4)
    assert same_tensors(state, same)
    legal = one_size(5, 4).mask(instance, state).view(10, 5, 4)
    assert torch.equal(legal.any(dim=2), plain.mask(shop, same)) and (legal.sum(dim=2) <= 1).all()


def test_brute_force_finds_what_a_search_and_the_solver_find():
    pytest.importorskip("ortools")
    problem = one_size(2, 2)
    instance, _ = drawn(6, 2, 2, seed=4)
    every = methods.WithoutReplacement(128, 1)
    found = search(problem, FixedPolicy(problem), instance, every, torch.Generator().manual_seed(0))
    for row in range(6):
        jobs = (instance.operations[row] // instance.times.shape[2]).tolist()
        legal = {}
        for actions in itertools.product(range(4), repeat=len(jobs)):
            if sorted(action // 2 for action in actions) == jobs:
                legal[actions] = plain_general_cost(instance, row, actions)  # inf: a machine cannot do it
        sequences = {actions for actions, makespan in legal.items() if makespan < math.inf}
        best = min(legal.values())
        leaves = {tuple(actions) for actions in found.actions[row][found.valid[row]].tolist()}
        assert leaves == sequences and found.best()[1][row] == best
        answer = solved(original_of(take(instance, slice(row, row + 1))))
        assert answer.lowest == answer.highest == best
        assert plain_general_cost(instance, row, answer.actions.tolist()) == best


def solved(original, seconds=5.0):
    answer = solve(Original(*(field[0] for field in original)), Options(seconds, 0, None))
    assert answer.kind == "optimal (CP-SAT)"
    return answer


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_solver_and_we_agree_on_the_cost_of_its_schedule(objective):
    pytest.importorskip("ortools")
    problem = one_size(4, 3, objective=objective)
    for seed in range(20):
        instance, _ = drawn(1, 4, 3, seed=seed)
        instance = problem.with_objective(instance, torch.Generator().manual_seed(seed))
        answer = solved(original_of(instance))
        actions = torch.from_numpy(answer.actions)[None]
        assert problem.cost(instance, actions).item() == answer.highest == answer.lowest


def test_backwards_in_time():
    """The reversed solution of reversed jobs is as good or better, and twice backwards is forwards."""
    instance, actions = drawn(20, 4, 3, general=False)
    instance = Instance.restored(
        instance.stored() | {"waits": torch.randint(0, 9, (20, 4, 4), generator=torch.Generator()).float()}
    )
    problem, all_rows = one_size(4, 3), torch.ones(20, dtype=torch.bool)
    turned = instance.backwards(all_rows)
    assert (problem.cost(turned, actions.flip(1)) <= problem.cost(instance, actions)).all()
    assert same_tensors(turned.backwards(all_rows), instance) and not torch.equal(turned.times, instance.times)


# ---- random instances


@pytest.mark.parametrize("similar", [True, False])
def test_random_instances_are_those_of_the_papers(similar):
    """The ranges of the published sets, and each of their values is drawn."""
    instance = random_instances(300, 6, 10, similar, torch.Generator().manual_seed(0))
    assert same_tensors(instance, random_instances(300, 6, 10, similar, torch.Generator().manual_seed(0)))
    lengths = set(lengths_of(instance).flatten().tolist())
    assert lengths == ({8, 9, 10, 11, 12} if similar else {10})
    times = instance.times.flatten(1, 2).gather(1, instance.operations[..., None].expand(-1, -1, 10)).flatten(0, 1)
    able = times.isfinite()
    counts = torch.bincount(able.sum(dim=1), minlength=11)[1:]
    assert (counts > 0.8 * len(times) / 10).all() and (counts < 1.2 * len(times) / 10).all()
    assert (able.sum(dim=0) > 0.5 * len(times)).all()
    values = set(times[able].int().tolist())
    assert values == set(range(1, 21 if similar else 100))
    highest = times.masked_fill(~able, 0).amax(dim=1)
    lowest = times.amin(dim=1)
    assert (highest <= (1.5 * lowest + 1) if similar else highest <= 99).all()
    assert similar == bool((highest / lowest < 3).all())


def test_both_kinds_are_drawn_in_training():
    problem = FJSP([[3, 5]], [[3, 5]], similar_times=0.3)
    kinds = [problem.generate(2, torch.Generator().manual_seed(seed)).times for seed in range(200)]
    similar = [bool((times.masked_fill(times.isinf(), 0) % 5 == 0).all()) for times in kinds]  # in units of 5
    assert 35 < sum(similar) < 85  # 60 expected
    with pytest.raises(ValueError, match="similar_times must be a share in 0..1, got 2"):
        FJSP([[3, 5]], [[3, 5]], similar_times=2)


def test_validation_instances_are_the_same_however_many():
    few, many = FlexibleShopSets().validation(10, 5, 4), FlexibleShopSets().validation(10, 5, 9)
    assert same_tensors(take(many.instances, slice(4)), few.instances)
    spread = many.originals.times.masked_fill(many.originals.times < 0, 0).amax(dim=(1, 2, 3))
    assert (spread[::2] <= 20).all() and (spread[1::2] > 80).all()


# ---- rules


@pytest.mark.parametrize("name", RULES)
def test_rules_put_an_operation_where_it_ends_first(name):
    instance, _ = drawn(10, 5, 3, seed=1)
    found = dispatch_flexible(original_of(instance), name)
    for row in range(10):
        decisions = plain_rule(instance, row, *RULES[name])
        assert found[row].tolist() == [job * 3 + machine for job, machine in decisions]


# ---- files, arrays, reports


TEXT = """# of two jobs
2 3 1.8
# job 1
2  2 1 5 3 4   1 2 6

1 3 1 7
  2 8 3 9
"""


def test_files_are_read(tmp_path):
    """Remarks, blanks, a mean in the first line, jobs over several lines; machines from 1, or from 0 if one is 0."""
    (tmp_path / "shop.fjs").write_text(TEXT)
    (found,) = FJSP([[2, 3]], [[2, 3]]).load(str(tmp_path / "shop.fjs"))
    assert found.names == ["shop"] and found.originals.first.tolist() == [1]
    assert found.originals.times[0].tolist() == [[[5, -1, 4], [-1, 6, -1]], [[-1, -1, -1], [7, 8, 9]]]
    actions = torch.tensor([[2, 3, 1]])
    assert found.true_cost(torch.tensor([0]), actions).tolist() == [10]
    (tmp_path / "zero.fjs").write_text("1 2\n2 1 0 5 2 0 3 1 4\n")
    (found,) = FJSP([[2, 3]], [[2, 3]]).load(str(tmp_path / "zero.fjs"))
    assert found.originals.first.tolist() == [0] and found.originals.times[0].tolist() == [[[5, -1], [3, 4]]]
    both = FJSP([[2, 3]], [[2, 3]]).load(str(tmp_path))
    assert [each.names for each in both] == [["zero"], ["shop"]]


def test_lists_of_alternatives_become_arrays():
    shop = shop_of_lists("mine", [[[(0, 12), (1, 9)], [(1, 7)]], [[(0, 4)]]], 2, release=[0, 3], due=[20, 9])
    assert shop.times.tolist() == [[[12, 9], [-1, 7]], [[4, -1], [-1, -1]]]
    assert (shop.release.tolist(), shop.due.tolist(), shop.weight.tolist()) == ([0, 3], [20, 9], [1, 1])
    (found,) = gumbeldore.load_instances(FJSP([[2, 3]], [[2, 3]], objective="weighted_tardiness"), **shop.arrays())
    assert found.costs(torch.tensor([[[1, 1, 2]]])).tolist() == [[0.0]] and not found.warnings
    (found,) = gumbeldore.load_instances(FJSP([[2, 3]], [[2, 3]]), **shop.arrays())
    (line,) = found.warnings
    assert line.startswith("due dates have no effect on objective=makespan; problem.objective=weighted_tardiness")


@pytest.mark.parametrize(
    ("jobs", "more", "rule"),
    [
        ([[[(0, 3)], [], [(0, 2)]]], {}, "job 0, operation 1 has no machine"),
        ([[[(0, 3)]], [[(2, 3)]]], {}, "job 1, operation 0: machines are 0..1 here, got 2"),
        ([[[(-1, 3)]]], {}, "job 0, operation 0: machines are 0..1 here, got -1"),
        ([[[(0, 2.7)]]], {}, "job 0, operation 0: (machine, time) must be whole numbers below"),
        ([[[(0, math.nan)]]], {}, "job 0, operation 0: (machine, time) must be whole numbers below"),
        ([[[("0", "3")]]], {}, "job 0, operation 0: (machine, time) must be whole numbers [1, 2], got"),
        ([[[(0, None)]]], {}, "job 0, operation 0: (machine, time) must be whole numbers [1, 2], got object"),
        ([[[(0, -1)]]], {}, "job 0, operation 0: a time must be at least 0, got -1"),
        ([[[(0, 2), (0, 7)]]], {}, "job 0, operation 0: machine 0 comes twice"),
        ([[[0, 3]]], {}, "job 0, operation 0: each machine must be (machine, time), got [0, 3]"),
        (
            [[[(0, 3), (1, 2, 3)]]],
            {},
            "job 0, operation 0: each machine must be (machine, time), got [(0, 3), (1, 2, 3)]",
        ),
        ([[5]], {}, "job 0, operation 0: each machine must be (machine, time), got 5"),
        ([[[(0, 3)]]], {"release": [0, 2]}, "release must be whole numbers [1], got int64 [2]"),
        ([[[(0, 3)]]], {"due": [2.5]}, "due must be whole numbers below"),
    ],
)
def test_wrong_alternatives_are_refused(jobs, more, rule):
    with pytest.raises(ValueError, match=re.escape(rule)):
        shop_of_lists("mine", jobs, machines=2, **more)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("2 3\n1 1 1 5\n", "the file ends before the number of a job's operations, 1 of 2 jobs are complete"),
        ("1 3\n1 1 1\n", "the file ends before a time, 0 of 1 jobs are complete"),
        ("1 3\n1 1\n4 5\n", "line 3: machines are 1..3 here, got 4"),
        ("1 3\n2 1 1 3\n1 4 0\n", "line 3: machines are 1..3 here, got 4"),
        ("1 3\n1 2 2 5 2 6\n", "line 2: an operation has a machine twice"),
        ("1 3\n1 0\n", "line 2: the number of an operation's machines must be 1.*, got '0'"),
        ("1 3\n1 1 1 5 7\n", "line 2: '7' follows the last job; more operations or jobs than announced"),
        ("1 3\n1 1 1 5\n1 1 1 5\n", "line 3: '1' follows the last job; more operations or jobs than announced"),
        ("1 3\n3 1 1 5 1 1 5 1 1 6\n0 2 3\n1 0 2\n2 2 0\n", "line 3: numbers follow the last job: setup times are"),
        ("1 3\n1 1 1 5\n0 1\n1 2\n2 0\n", "line 3: numbers follow the last job: precedence arcs are not supported"),
        ("1 3\n1 1 1 -5\n", "line 2: a time must be 0..1e.12, got '-5'"),
        ("1 3\n1 1 1 x\n", "line 2: a time must be a whole number, got 'x'"),
        ("1 3\n1 1 1 2.5\n", "line 2: a time must be a whole number, got '2.5'"),
        ("1 3\n1 1 1 9999999999999999999\n", "line 2: a time must be 0..1e.12, got '9999999999999999999'"),
        ("# nothing\n", "the first line must be `jobs machines`"),
        ("1\n1 1 1 5\n", "line 1: the first line must be `jobs machines`"),
        ("0 3\n", "line 1: jobs and machines must be 1..1000000"),
        ("1000000 1000000\n", "the file ends before the number of a job's operations, 0 of 1000000 jobs are complete"),
        ("2 1\n1 1 1 1000000000000\n1 1 1 1", "times may add up to at most 1000000000000"),
    ],
)
def test_malformed_files_are_refused(text, rule, tmp_path):
    (tmp_path / "shop.fjs").write_text(text)
    with pytest.raises(ValueError, match=rule) as wrong:
        FJSP([[2, 3]], [[2, 3]]).load(str(tmp_path / "shop.fjs"))
    assert str(wrong.value).startswith(str(tmp_path / "shop.fjs"))


def test_json_is_refused_by_what_there_is_instead(tmp_path):
    (tmp_path / "shop.json").write_text('{"machines": 2, "jobs": [[[{"machine": 0, "processing": 4}]]]}')
    with pytest.raises(ValueError, match=r"shop\.json: flexible shops have no JSON here: give \.fjs or arrays"):
        FJSP([[2, 3]], [[2, 3]]).load(str(tmp_path / "shop.json"))


@pytest.mark.parametrize(("cannot", "warned"), [(-1, False), (0, True), (5, False)])
def test_a_time_of_0_on_some_machines_alone_is_warned_of(cannot, warned, tmp_path):
    """It may stand for a machine that cannot. An operation of time 0 on all its machines is as it should be."""
    times = np.array([[[-1, -1], [12, 9], [cannot, 7]], [[4, 4], [0, 0], [-1, 0]]])
    found = FlexibleShopSets().from_arrays({"times": np.stack([np.where(times == 0, 1, times), times])}, "x")
    line = "x/1: job 0, operation 1 takes 0 on some machines and more on others: where a machine cannot do an operation"
    assert [text.startswith(line) for text in found.warnings] == [True] * warned
    shop = shop_of_lists("shop", [[[(0, 3), (1, 0)]], [[(0, 3)]]], machines=2)
    (named, _) = gumbeldore.load_instances(one_size(2, 2), [shop.arrays()] * 2 + [{"times": times}])
    assert [text.partition(":")[0] for text in named.warnings] == ["instances[0]"]
    (tmp_path / "shop.fjs").write_text("2 2\n1 2 1 3 2 0\n1 1 1 3\n")
    (read,) = FlexibleShopSets().load(str(tmp_path / "shop.fjs"))
    assert read.warnings[0].startswith("shop: job 1, operation 0 takes 0 on some machines")


def test_references_are_found_by_content(tmp_path, monkeypatch):
    """Whatever the file is called; not with a release more. The shipped table has 547 instances."""
    assert len(best_known.best_known("fjsp")) == 547
    (tmp_path / "shop.fjs").write_text(TEXT)
    times = np.array([[[5, -1, 4], [-1, 6, -1]], [[7, 8, 9], [-1, -1, -1]]])
    fingerprint = FlexibleShopSets().fingerprint({"times": times})
    (tmp_path / "fjsp_best_known.csv").write_text(f"instance,fingerprint,lower,upper\nmine,{fingerprint},9,10\n")
    monkeypatch.setattr(best_known, "DATA", tmp_path)
    best_known.best_known.cache_clear()
    try:
        (found,) = FJSP([[2, 3]], [[2, 3]]).load(str(tmp_path / "shop.fjs"))
        assert found.references.tolist() == [10] and found.kinds == [f"best known {best_known.DATE}"]
        later = FlexibleShopSets().from_arrays({"times": times[None], "release": np.array([[0, 1]])}, "x")
        assert later.references.isnan().all()
    finally:
        best_known.best_known.cache_clear()


@pytest.mark.parametrize(
    ("arrays", "rule"),
    [
        ({"times": np.zeros((2, 3))}, r"x: times must be \[n, J, O, M\], got \[2, 3\]"),
        ({"times": np.full((1, 1, 1, 2), 1.5)}, "x: times must be whole numbers below"),
        ({"times": np.full((1, 1, 1, 2), -2)}, "x: job 0, operation 0: times must not be negative, but for -1"),
        ({"times": [[[[3, -1], [-1, -1], [-1, 3]]]]}, r"x: times\[0, 0, 1\] has no machine, but operations before and"),
        ({"times": np.full((1, 1, 1, 2), -1)}, "x: there is no operation to be scheduled"),
        ({"times": np.ones((1, 2, 2, 2)), "waits": -np.ones((1, 2, 2))}, "job 0, operation 0: waits must not be neg"),
        (
            {"times": np.ones((1, 2, 2, 2)), "release": np.ones((1, 2, 2))},
            r"x: release must be whole numbers \[1, 2\] \(one for each job\), got float64 \[1, 2, 2\]",
        ),
        ({"times": np.ones((1, 2, 2, 2)), "machines": np.ones((1, 2))}, "x must hold times and may hold"),
    ],
)
def test_malformed_arrays_are_refused(arrays, rule):
    with pytest.raises(ValueError, match=rule):
        FlexibleShopSets().from_arrays({name: np.array(array) for name, array in arrays.items()}, "x")


def test_lists_of_machines_and_times_are_solved_and_shown(tmp_path):
    shop = shop_of_lists("mine", [[[(0, 5), (2, 4)], [(1, 6)]], [[(0, 7), (1, 8), (2, 9)]]], machines=3)
    (found,) = gumbeldore.load_instances(one_size(2, 3), **shop.arrays())
    actions = torch.tensor([2, 3, 1])
    named = one_size(2, 3).reports.named_solution(found.originals, 0, actions)
    assert named == {"schedule": [[(2, 0, 4), (1, 4, 10)], [(0, 0, 7)]]}
    name, columns, rows = one_size(2, 3).reports.details(found.originals, 0, actions)
    assert (name, columns) == ("schedules.csv", ["job", "operation", "machine", "start", "end"])
    assert rows == [[0, 0, 2, 0, 4], [0, 1, 1, 4, 10], [1, 0, 0, 0, 7]]
    for shown in (found.instances, found.originals):
        figure = one_size(2, 3).reports.render(shown, actions[None], ["x"])
        bars = sorted(round(bar.get_y() + bar.get_height() / 2) for bar in figure.axes[0].patches)
        assert bars == [0, 1, 2]


def test_experts_are_written_and_read(tmp_path):
    problem = one_size(5, 3)
    instance, actions = drawn(6, 5, 3)
    costs = problem.cost(instance, actions)
    PseudoExperts(tmp_path).add(Shard("mine", instance, actions, costs))
    with np.load(tmp_path / "mine.npz") as file:
        names = {"times", "release", "machine_release", "waits", "due", "weight"}
        assert set(file.files) == {"actions", "costs", *(f"instance.{name}" for name in names)}
        assert file["instance.times"].min() == CANNOT
        whole = FlexibleShopSets().from_arrays({name: file[f"instance.{name}"] for name in names}, "x")
    assert same_tensors(read_shard(tmp_path / "mine.npz", Instance).instances, instance)
    read_experts(tmp_path / "mine.npz", problem, problem.generate(1, torch.Generator()))
    assert torch.equal(whole.true_cost(torch.arange(6), actions), costs.double())
