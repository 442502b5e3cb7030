"""The JSSP: makespans, schedules and states against plain Python."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch

import gumbeldore
from gumbeldore.batches import repeated, take
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.testing import problem_contract
from problems.jssp import JSSP
from problems.jssp.instances import job_shop
from problems.jssp.originals import Original
from problems.jssp.schedules import check_schedule, schedule
from tests.helpers.policies import FixedPolicy
from tests.helpers.schedules import one_size, plain_makespan, plain_schedule, random_sequences
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


@pytest.mark.parametrize(("jobs", "ops"), [(4, 3), (3, 5), (1, 4), (5, 1), (6, 6)])
def test_cost_is_the_makespan(jobs, ops):
    instance, actions = random_sequences(30, jobs, ops)
    costs = one_size(jobs, ops).cost(instance, actions).tolist()
    starts = schedule(instance, actions).tolist()
    check_schedule(instance, schedule(instance, actions))
    for row in range(30):
        times, machines = instance.times[row].tolist(), instance.machines[row].tolist()
        assert costs[row] == plain_makespan(times, machines, actions[row].tolist())
        by_hand = plain_schedule(times, machines, actions[row].tolist())
        assert starts[row] == [[by_hand[job, op] for op in range(ops)] for job in range(jobs)]
        assert plain_is_feasible(times, machines, starts[row])


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

TWO_BY_TWO = job_shop(torch.tensor([[[3.0, 2.0], [4.0, 1.0]]]), torch.tensor([[[0, 1], [1, 0]]]))


@pytest.mark.parametrize(
    ("start", "rule"),
    [
        ([[0, 4], [0, 4]], None),
        ([[0, 9], [5, 20]], None),  # idle time is allowed
        ([[-1, 4], [0, 4]], "starts before its job is released"),
        ([[1, 3], [5, 9]], "starts before its job is ready"),
        ([[0, 4], [0, 3]], "starts before its job is ready"),
        ([[0, 3], [0, 4]], "overlaps another on its machine"),  # machine 1 until 4
        ([[2, 5], [0, 4]], "overlaps another on its machine"),  # machine 0: 2..5 and 4..5
        ([[4, 8], [0, 4]], "overlaps another on its machine"),  # both start at 4
    ],
)
def test_infeasible_schedules_are_found(start, rule):
    start = torch.tensor([start]).float()
    assert plain_is_feasible(*(field[0].tolist() for field in TWO_BY_TWO[:2]), start[0].tolist()) == (rule is None)
    if rule is None:
        check_schedule(TWO_BY_TWO, start)
        return
    with pytest.raises(ValueError, match=rule):
        check_schedule(TWO_BY_TWO, start)
    feasible = torch.tensor([[[0.0, 4.0], [0.0, 4.0]]])
    with pytest.raises(ValueError, match=f"row 1: .*{rule}"):
        check_schedule(repeated(TWO_BY_TWO, 3), torch.cat([feasible, start, feasible]))


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


def test_operations_of_no_time_take_no_machine():
    """Job 1 skips machine 1: its first operation is done at once, while job 0 is on that machine."""
    shop = job_shop(torch.tensor([[[11.0, 0.0, 0.0], [1.0, 0.0, 10.0]]]), torch.tensor([[[0, 1, 2], [1, 0, 2]]]))
    for order in itertools.permutations([0, 0, 0, 1, 1, 1]):
        assert schedule(shop, torch.tensor([order])).tolist() == [[[0, 11, 11], [0, 1, 1]]]
    check_schedule(shop, torch.tensor([[[0.0, 11.0, 11.0], [0.0, 1.0, 1.0]]]))
    with pytest.raises(ValueError, match="starts before its job is ready"):
        check_schedule(shop, torch.tensor([[[0.0, 10.0, 11.0], [0.0, 1.0, 1.0]]]))
    result = gumbeldore.solve(
        "jssp15x15", times=[[11, 0, 0], [1, 0, 10]], machines=[[0, 1, 2], [1, 0, 2]], method="greedy"
    )
    assert result.cost == 11


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


@pytest.mark.parametrize(("jobs", "ops"), [(2, 2), (2, 3), (3, 2)])
def test_exhaustive_sampling_finds_every_sequence_and_the_optimum(jobs, ops):
    problem = one_size(jobs, ops)
    instance, _ = random_sequences(3, jobs, ops, seed=1)
    found = search(
        problem, FixedPolicy(problem), instance, methods.WithoutReplacement(8, 16), torch.Generator().manual_seed(0)
    )
    every = set(itertools.permutations([job for job in range(jobs) for _ in range(ops)]))
    assert found.stats.rounds <= 16
    for row in range(3):
        leaves = [tuple(actions) for actions in found.actions[row][found.valid[row]].tolist()]
        assert len(leaves) == len(set(leaves)) and set(leaves) == every
        times, machines = instance.times[row].tolist(), instance.machines[row].tolist()
        assert found.best()[1][row].item() == min(plain_makespan(times, machines, actions) for actions in every)


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
