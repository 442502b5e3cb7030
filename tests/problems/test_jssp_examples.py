"""Instances of job shops to learn from, and the order in which their experts are imitated."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

from gumbeldore.batches import repeated
from gumbeldore.testing import problem_contract
from problems.jssp import JSSP
from problems.jssp.instances import job_shop
from problems.jssp.schedules import schedule
from tests.helpers.schedules import one_size, plain_schedule, random_sequences
from tests.helpers.tensors import same_tensors


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
