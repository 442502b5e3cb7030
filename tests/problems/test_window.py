"""The window of the job shop: the next operations of every job, or of those that can go on first."""

from __future__ import annotations

import pickle

import pytest
import torch

from gumbeldore.testing import problem_contract, random_solution
from gumbeldore.training.imitation import OUT_OF_VIEW, Imitation
from models.job_shop import JobShop
from problems.jssp.instances import random_instances
from problems.jssp.state import earliest_starts
from tests.helpers.schedules import one_size


@pytest.mark.parametrize(("window", "jobs"), [(1, None), (2, None), (5, 2), (None, 3), (2, 1), (1, 9)])
def test_contract(window, jobs):
    problem_contract(one_size(5, 4, window=window, jobs_in_view=jobs, general=0.5, chronological=True))


def test_jobs_show_their_next_operations():
    """Of four jobs of four operations, at the places 0, 2, 3 and 4: the last one is finished."""
    instance = one_size(4, 4).generate(1, torch.Generator().manual_seed(0))
    actions = torch.tensor([[1, 1, 2, 2, 2, 3, 3, 3, 3]])

    def seen(**options):
        state = one_size(4, 4, **options).replay(instance, actions)
        return state.view.tolist()[0], one_size(4, 4, **options).mask(instance, state).tolist()[0]

    three = [True, True, True, False]
    assert seen(window=1) == ([0, 1, 6, 11], three)  # job 3 has none, so one job shows one more
    for whole in (2, 4, None, "all"):  # twice four places are enough
        assert seen(window=whole) == ([0, 1, 2, 3, 6, 7, 11], three)
    state = one_size(4, 4).replay(instance, actions)
    start = earliest_starts(instance, state)[0, :3].tolist()
    first, second, _ = sorted(range(3), key=start.__getitem__)
    next_one = [0, 6, 11]
    assert seen(window=1, jobs_in_view=1)[0] == [next_one[first]]
    assert seen(window=1, jobs_in_view=2)[0] == sorted([next_one[first], next_one[second]])
    assert seen(window=1, jobs_in_view=2)[1] == [job in (first, second) for job in range(4)]


def test_an_evaluation_shows_a_part_of_large_shops_unless_something_else_is_said():
    medium, large = (random_instances(1, jobs, 50, torch.Generator().manual_seed(0)) for jobs in (100, 101))

    def shown(instance, **options):
        return one_size(6, 6, **options).for_evaluation().reset(instance).view.shape[1]

    assert shown(medium) == 5000 and shown(large) == 250
    assert shown(large, window="all") == shown(large, jobs_in_view="all") == 5050
    assert shown(large, window=2) == 202 and shown(large, jobs_in_view=2) == 100
    assert one_size(6, 6).reset(large).view.shape[1] == 5050  # a training shows all
    assert one_size(101, 50).for_evaluation().reset(large).view.shape[1] == 5050  # as it was trained
    assert one_size(6, 6, objective="total_flow_time").for_evaluation().reset(large).view.shape[1] == 5050
    evaluated = one_size(6, 6).for_evaluation()
    for same in (evaluated.for_evaluation(), evaluated.curriculum(1.0), pickle.loads(pickle.dumps(evaluated))):
        assert same.reset(large).view.shape[1] == 250
    growing = one_size(6, 6, grow=[[2, 2], 1.0])
    assert growing.curriculum(0.0).for_evaluation().reset(large).view.shape[1] == 250
    assert growing.for_evaluation().curriculum(0.0).generate(1, torch.Generator()).operations.shape[1] == 4
    assert evaluated.view_of(medium) == "" == one_size(6, 6, window=2).for_evaluation().view_of(large)
    said = "of shops with 5,050 operations, the policy sees the next 5 operations of 50 jobs (problem.window=all: all)"
    assert evaluated.view_of(large) == said


def test_every_row_shows_as_many():
    """Whatever has been done: the next operation of every job, and no gap between the operations of a job."""
    problem = one_size(6, 5, general=0.5, window=2)
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        instance = problem.generate(20, generator)
        ops = instance.times.shape[2]
        order = torch.rand(20, 30, generator=generator).argsort(dim=1)
        actions = (instance.operations // ops).gather(1, order)
        for step in range(31):
            state = problem.replay(instance, actions[:, :step])
            assert state.view.shape == (20, min(30 - step, 12))
            for row in range(20):
                seen = state.view[row].tolist()
                assert seen == sorted(seen) and set(seen) <= set(state.remaining[row].tolist())
                for job, first in enumerate(state.next_op[row].tolist()):
                    places = [number % ops for number in seen if number // ops == job]
                    assert places == list(range(first, first + len(places)))
                    assert len(places) >= min(2, ops - first)


def test_what_an_expert_does_out_of_view_is_not_imitated():
    problem = one_size(5, 4, window=9, jobs_in_view=2)  # deeper than any job
    policy = JobShop(width=16, blocks=1, heads=2, feedforward=32, lookahead=True, order_loss=1.0)
    instance = problem.generate(40, torch.Generator().manual_seed(0))
    actions = random_solution(one_size(5, 4), instance, torch.Generator().manual_seed(1))
    state = problem.reset(instance)
    legal = problem.mask(instance, state).gather(1, actions[:, :1]).squeeze(1)
    assert problem.mask(instance, state).sum(dim=1).tolist() == [2] * 40
    _, target, auxiliary = Imitation(problem, policy)(instance, state, actions)
    assert torch.equal(target == OUT_OF_VIEW, ~legal) and 5 < legal.sum() < 30
    assert torch.equal(target[legal], actions[:, 0][legal]) and auxiliary.isfinite()


@pytest.mark.parametrize("name", ["window", "jobs_in_view"])
def test_wrong_windows_are_refused(name):
    for wrong in (0, -1, "some", 2.5, True):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, all or null, got {wrong}"):
            one_size(3, 3, **{name: wrong})
