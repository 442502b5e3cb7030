"""The JSSP: schedules and states against plain Python, instances to learn from and the order of their experts."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from gumbeldore.batches import repeated, take
from gumbeldore.testing import problem_contract
from problems.jssp import JSSP
from problems.jssp.instances import job_shop, random_instances
from problems.jssp.originals import Original, original_of
from problems.jssp.plots import plot_schedules
from problems.jssp.schedules import check_schedule, schedule
from tests.helpers.schedules import one_size, plain_schedule, random_sequences
from tests.helpers.tensors import same_tensors


def plain_is_feasible(times, machines, start):
    """Every pair of operations of a job and of a machine, in plain Python."""
    operations = list(itertools.product(range(len(times)), range(len(times[0]))))
    if any(start[job][op] < 0 for job, op in operations):
        return False
    for (j, o), (k, p) in itertools.permutations(operations, 2):
        ends = start[j][o] + times[j][o]
        if j == k and o < p and ends > start[k][p]:
            return False
        meet = machines[j][o] == machines[k][p] and times[j][o] and times[k][p]
        if meet and ends > start[k][p] and start[k][p] + times[k][p] > start[j][o]:
            return False
    return True


# ---- the rules


@pytest.mark.parametrize("size", [(2, 2), (4, 3), (3, 5), (1, 4), (5, 1), (2, 1), (1, 2)])
def test_contract(size):
    problem_contract(one_size(*size))


def test_contract_with_several_sizes():
    for seed in range(4):
        problem_contract(JSSP([[4, 3], [3, 4], [2, 2]], [[5, 5]]), seed=seed)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ([[0, 0, 0, 1, 1, 1]], "row 0 does not schedule each job 0..2 as often as it has operations"),
        ([[0, 1, 2, 0, 1, 3]], "row 0 does not schedule"),
        ([[0, 1, 2, 0, 1, -1]], "row 0 does not schedule"),
        ([[0, 1, 2, 0, 1]], "6 operations need 6 actions"),
        ([[0, 1, 2, 0, 1, 2, 2]], "6 operations need 6 actions"),
        ([0, 1, 2, 0, 1, 2], "6 operations need 6 actions"),
    ],
)
def test_illegal_sequences_are_refused(wrong, rule):
    instance, _ = random_sequences(1, 3, 2)
    with pytest.raises(ValueError, match=rule):
        one_size(3, 2).cost(instance, torch.tensor(wrong))


TWO_BY_TWO = job_shop(torch.tensor([[[3.0, 2.0], [4.0, 1.0]]]), torch.tensor([[[0, 1], [1, 0]]]))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"waits": torch.tensor([[[3.0, 0.0], [-4.0, 0.0]]])}, "waits must be finite and not negative"),
        ({"release": torch.tensor([[3.0, torch.inf]])}, "release must be finite and not negative"),
        ({"machine_release": torch.tensor([[-3.0, 0.0]])}, "machine_release must be finite and not negative"),
        ({"times": torch.tensor([[[3.0, -1.0], [4.0, 1.0]]])}, "times must be finite and not negative"),
        ({"times": torch.tensor([[[3.0, torch.nan], [4.0, 1.0]]])}, "times must be finite and not negative"),
    ],
)
def test_malformed_instances_are_refused(changes, rule):
    problem = one_size(2, 2)
    problem.check(TWO_BY_TWO)
    with pytest.raises(ValueError, match=rule):
        problem.check(TWO_BY_TWO._replace(**changes))


# ---- the check of schedules


@pytest.mark.parametrize("zeros", [False, True])
def test_moved_operations_are_judged_like_pair_by_pair(zeros):
    """One operation of a feasible schedule moved at random: many stay feasible and many do not."""
    instance, actions = random_sequences(300, 4, 3)
    times = (instance.times // 20) * (instance.times > 40 if zeros else 1)
    instance = instance._replace(times=times)
    start = schedule(instance, actions)
    generator = torch.Generator().manual_seed(1)
    moved = torch.randint(12, (300, 1), generator=generator)
    by = torch.randint(-2, 3, (300, 1), generator=generator).float()
    start = start.flatten(1).scatter_add(1, moved, by).view(300, 4, 3)
    judged = []
    for row in range(300):
        try:
            check_schedule(take(instance, slice(row, row + 1)), start[row, None])
            judged.append(True)
        except ValueError:
            judged.append(False)
    cases = zip(times.tolist(), instance.machines.tolist(), start.tolist(), strict=True)
    expected = [plain_is_feasible(*case) for case in cases]
    assert judged == expected and 50 < sum(judged) < 250


# ---- states


@pytest.mark.parametrize(("jobs", "ops"), [(4, 3), (3, 5), (1, 4), (5, 1)])
def test_states_say_what_has_happened(jobs, ops):
    """Replayed states equal stepped ones and those of plain Python, and masks are the jobs not yet finished."""
    problem = one_size(jobs, ops)
    instance, actions = random_sequences(20, jobs, ops)
    state = problem.reset(instance)
    for q in range(jobs * ops + 1):
        assert same_tensors(problem.replay(instance, actions[:, :q]), state)
        legal = problem.mask(instance, state)
        for row, before in enumerate(actions[:, :q].tolist()):
            times, machines = instance.times[row].tolist(), instance.machines[row].tolist()
            start, done = plain_schedule(times, machines, before), Counter(before)
            ends = {(j, o): s + times[j][o] for (j, o), s in start.items()}
            assert state.next_op[row].tolist() == [done[job] for job in range(jobs)]
            assert state.job_free[row].tolist() == [ends.get((job, done[job] - 1), 0) for job in range(jobs)]
            for machine, free in enumerate(state.machine_free[row].tolist()):
                there = [end for (j, o), end in ends.items() if machines[j][o] == machine and times[j][o]]
                assert free == max([0, *there])
            unscheduled = [j * ops + o for j in range(jobs) for o in range(ops) if (j, o) not in start]
            assert state.remaining[row].tolist() == unscheduled
            if unscheduled:
                assert legal[row].tolist() == [done[job] < ops for job in range(jobs)]
            else:  # absorbing
                assert legal[row].tolist() == [job == 0 for job in range(jobs)]
        state = problem.step(instance, state, actions[:, q]) if q < jobs * ops else state


# ---- what users see


def test_details_are_the_schedule_in_the_instances_own_units():
    """Two jobs on two machines: on machine 0 job 0 is first, on machine 1 job 1."""
    times = np.array([[[9, 9], [9, 9]], [[300, 200], [400, 100]]])
    machines = np.array([[[0, 1], [0, 1]], [[0, 1], [1, 0]]])
    originals = Original.of({"times": times, "machines": machines}, first=np.array([1, 0]))
    file, columns, rows = one_size(2, 2).reports.details(originals, 1, torch.tensor([0, 1, 1, 0]))
    assert file == "schedules.csv" and columns == ["job", "operation", "machine", "start", "end"]
    assert sorted(rows) == [[0, 0, 0, 0, 300], [0, 1, 1, 400, 600], [1, 0, 1, 0, 400], [1, 1, 0, 400, 500]]
    assert all(type(number) is int for row in rows for number in row)
    sequence = torch.tensor([0, 0, 1, 1])
    *_, rows = one_size(2, 2).reports.details(originals, 0, sequence)  # of an input that counts from 1
    assert sorted(rows) == [[1, 0, 1, 0, 9], [1, 1, 2, 9, 18], [2, 0, 1, 9, 18], [2, 1, 2, 18, 27]]


def test_sizes_and_solutions_in_words():
    instance, actions = random_sequences(1, 4, 3)
    assert one_size(2, 2).reports.size(instance, 12) == "4x3"
    assert one_size(2, 2).reports.solution(actions[0]) == actions[0].tolist()


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"sizes": []}, "must each list at least one"),
        ({"validation_sizes": []}, "must each list at least one"),
        ({"sizes": [[1, 1]]}, r"at least two operations, got \[1, 1\]"),
        ({"sizes": [[6, 6], [0, 6]]}, r"got \[0, 6\]"),
        ({"sizes": [[6]]}, r"got \[6\]"),
        ({"sizes": [[6, 6, 0]]}, r"weight above 0\], got \[6, 6, 0\]"),
        ({"sizes": [[6, 6, math.nan]]}, r"weight above 0\], got \[6, 6, nan\]"),
        ({"sizes": [[6, 6, 1, 1]]}, r"got \[6, 6, 1, 1\]"),
        ({"validation_sizes": [[6, 6, 6]]}, r"got \[6, 6, 6\]"),
        ({"sizes": [[6, 2.5]]}, r"got \[6, 2.5\]"),
        ({"validation_sizes": [[-2, -3]]}, r"got \[-2, -3\]"),
        ({"validation_sizes": [[6, 6], [4, 4], [6, 6]]}, "validation_sizes must differ from one another"),
    ],
)
def test_impossible_problems_are_refused(wrong, rule):
    with pytest.raises(ValueError, match=rule):
        JSSP(**{"sizes": [[6, 6]], "validation_sizes": [[6, 6]], **wrong})


# ---- instances to learn from, and the order in which their experts are imitated


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([[4, 3], [2, 5], [3, 3]], {(4, 3): 100, (2, 5): 100, (3, 3): 100}),
        ([[4, 3, 8], [2, 5], [3, 3, 1.0]], {(4, 3): 240, (2, 5): 30, (3, 3): 30}),
    ],
)
def test_one_size_is_drawn_per_call_by_the_weights(sizes, expected):
    problem = JSSP(sizes, [[9, 9]], grow=[[2, 2], 0.5]).curriculum(1.0)
    drawn = [problem.generate(3, torch.Generator().manual_seed(seed)) for seed in range(300)]
    assert all(each.times.shape == each.machines.shape and len(each.times) == 3 for each in drawn)
    seen = Counter(tuple(each.times.shape[1:]) for each in drawn)
    assert seen.keys() == expected.keys() and all(abs(seen[size] - expected[size]) < 30 for size in seen)


@pytest.mark.parametrize("weight", [1e-60, 1e60, 10**300])
def test_weights_may_be_of_any_size(weight):
    """Also of one that float32 has no number for."""
    problem = JSSP([[4, 3, weight], [2, 5, 4 * weight]], [[9, 9]], grow=[[2, 2], 0.5]).curriculum(1.0)
    sizes = [problem.generate(1, torch.Generator().manual_seed(seed)).times.shape[1:] for seed in range(300)]
    assert 210 < sizes.count((2, 5)) < 270  # 240 expected


def test_generated_times_are_uniform_and_machines_permutations():
    times, machines = one_size(5, 3).generate(4000, torch.Generator().manual_seed(0))[:2]
    seen = Counter(times.flatten().tolist())
    assert sorted(seen) == [*range(1, 100)] and times.dtype == torch.float32
    assert min(seen.values()) > 480 and max(seen.values()) < 740  # 606 expected, within five standard deviations
    orders = Counter(map(tuple, machines.flatten(0, 1).tolist()))
    assert set(orders) == set(itertools.permutations(range(3))) and machines.dtype == torch.int64
    assert min(orders.values()) > 3000  # 3333 expected


def test_chronological_experts_are_never_worse_if_operations_take_no_time():
    problem, generator = one_size(5, 4, chronological=True), torch.Generator().manual_seed(0)
    instance = problem.generate(200, generator)
    none = torch.rand(instance.times.shape, generator=generator) < 0.3
    tiny = torch.rand(instance.times.shape, generator=generator) < 0.1  # nothing beside a start in float32
    times = instance.times.masked_fill(none, 0.0).masked_fill(tiny, 1e-9)
    instance = instance._replace(times=times)
    jobs = torch.arange(5).repeat_interleave(4)
    actions = jobs[torch.rand(200, 20, generator=generator).argsort(dim=1)]
    ordered = problem.reorder(instance, actions, 0, generator)
    assert not torch.equal(ordered, actions)
    before, after = problem.cost(instance, actions), problem.cost(instance, ordered)
    assert (after <= before).all() and (after == before).sum() >= 190


def test_chronological_experts_keep_their_schedule():
    problem_contract(one_size(5, 4, chronological=True))
    instance, actions = random_sequences(60, 5, 4)
    ordered = one_size(5, 4, chronological=True).reorder(instance, actions, 3, torch.Generator().manual_seed(0))
    assert not torch.equal(actions, ordered)
    assert torch.equal(schedule(instance, ordered), schedule(instance, actions))
    for row in range(60):
        start = plain_schedule(instance.times[row].tolist(), instance.machines[row].tolist(), ordered[row].tolist())
        begins = list(start.values())  # in the order of the decisions
        assert begins == sorted(begins)


def test_ties_of_starts_come_in_any_order():
    """The first operations of three jobs start at 0, and among the others are two pairs of equal starts."""
    instance = job_shop(
        torch.tensor([[[2.0, 60.0, 1.0], [3.0, 70.0, 1.0], [5.0, 80.0, 1.0]]]),
        torch.tensor([[[0, 1, 2], [1, 2, 0], [2, 0, 1]]]),
    )
    actions = torch.tensor([[0, 1, 2] * 3])
    start = plain_schedule(instance.times[0].tolist(), instance.machines[0].tolist(), actions[0].tolist())
    together = [[job for (job, _), begin in start.items() if begin == time] for time in sorted(set(start.values()))]
    expected = {sum(parts, ()) for parts in itertools.product(*map(itertools.permutations, together))}
    many = repeated(instance, 3000), actions.expand(3000, -1)
    ordered = one_size(3, 3, chronological=True).reorder(*many, 0, torch.Generator().manual_seed(0))
    seen = Counter(map(tuple, ordered.tolist()))
    assert set(seen) == expected and len(expected) == 6 * 2 * 2
    assert min(seen.values()) > 70  # 125 expected


def test_without_the_option_experts_are_imitated_as_they_are():
    instance, actions = random_sequences(6, 3, 4)
    other, unchanged = one_size(3, 4).augment(instance, actions, 3, torch.Generator().manual_seed(0))
    assert same_tensors(instance, other) and torch.equal(actions, unchanged)
    assert torch.equal(actions, one_size(3, 4).reorder(instance, actions, 3, torch.Generator().manual_seed(0)))


# ---- pictures


@pytest.mark.parametrize(("jobs", "machines"), [(3, 2), (15, 4), (25, 2)])
def test_pictures_show_every_operation_where_it_is(jobs, machines):
    instance = random_instances(3, jobs, machines, torch.Generator().manual_seed(0))
    times, orders = instance[:2]
    sequence = torch.arange(jobs).repeat_interleave(machines).repeat(3, 1)
    start = schedule(instance, sequence)
    figure = plot_schedules(original_of(instance), start, ["a", "b", "c"])
    FigureCanvasAgg(figure).draw()
    assert [axes.get_title() for axes in figure.axes] == ["a", "b", "c"]
    for i, axes in enumerate(figure.axes):
        assert len(axes.patches) == jobs * machines
        bars = iter(axes.patches)
        for job in range(jobs):
            colors = set()
            for op in range(machines):
                bar = next(bars)
                assert bar.get_x() == start[i, job, op] and bar.get_width() == pytest.approx(times[i, job, op].item())
                assert bar.get_y() + bar.get_height() / 2 == pytest.approx(orders[i, job, op].item())
                colors.add(to_hex(bar.get_facecolor()))
            assert len(colors) == 1
        assert len({to_hex(bar.get_facecolor()) for bar in axes.patches}) == jobs
        assert axes.get_xlim() == (0, pytest.approx((start + times)[i].max().item()))
        low, high = axes.get_ylim()
        assert low > machines - 1 and high < 0  # machine 0 on top
        assert [label.get_text() for label in axes.get_yticklabels()] == [str(m) for m in range(machines)]
        places = {
            (job, start[i, job, op] + times[i, job, op] / 2, orders[i, job, op])
            for job in range(jobs)
            for op in range(machines)
        }
        written = {(int(text.get_text()), *text.get_position()) for text in axes.texts}
        assert written <= {(job, float(x), int(y)) for job, x, y in places}
        assert written


def test_a_schedule_alone_is_wide():
    instance = random_instances(2, 3, 2, torch.Generator().manual_seed(0))
    start = schedule(instance, torch.tensor([[0, 1, 2, 2, 1, 0]] * 2))
    both = plot_schedules(original_of(instance), start, ["a", "b"])
    alone = plot_schedules(original_of(take(instance, slice(1))), start[:1], ["a"])
    assert both.get_figwidth() == alone.get_figwidth() == 10


def test_pictures_of_very_many_machines_show_those_with_operations():
    """Else a file of few bytes that announces a million of them would take hours."""
    times, machines = torch.tensor([[[3.0, 4.0], [2.0, 0.0]]]), torch.tensor([[[999_990, 7], [7, -1]]])
    original = original_of(job_shop(times, machines, machine_release=torch.zeros(1, 1_000_000)))
    figure = plot_schedules(original, torch.tensor([[[0.0, 3.0], [0.0, 0.0]]]), ["a"])
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["7", "999990"]
    bars = [(bar.get_x(), bar.get_width(), round(bar.get_y() + bar.get_height() / 2)) for bar in axes.patches]
    assert sorted(bars) == [(0, 2, 0), (0, 3, 1), (3, 4, 0)]


def test_pictures_need_one_title_each_and_may_take_no_time():
    zero = torch.zeros(1, 2, 2)
    original = original_of(job_shop(zero, torch.tensor([[[0, 1], [1, 0]]])))
    FigureCanvasAgg(plot_schedules(original, zero, ["nothing"])).draw()
    for titles in ([], ["a", "b"]):
        with pytest.raises(ValueError, match="one title per solution is needed"):
            plot_schedules(original, zero, titles)
