"""Dispatching rules for job shops, against plain Python and published results."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.heuristics import Heuristic
from problems.jssp.dispatching import DUE_RULES, RULES, rules_for
from problems.jssp.heuristics import dispatch_job_shop
from problems.jssp.instances import random_general_instances, random_instances
from problems.jssp.objectives import with_due_dates
from problems.jssp.originals import Original, original_of
from problems.jssp.sets import JobShopSets
from tests.helpers.schedules import plain_rule
from tests.helpers.unsolved import jssp


def dispatched(rule: str, generation: str, times: torch.Tensor, machines: torch.Tensor) -> torch.Tensor:
    """The rule's sequences of jobs [n, J*M]."""
    original = Original.of({"times": times.long().numpy(), "machines": machines.numpy()})
    return dispatch_job_shop(original, f"{rule} ({generation})")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mean_gap(rule: str, generation: str, source: str) -> float:
    """In percent, to the best-known makespans."""
    (instance_set,) = JobShopSets().load(source)
    sequences = dispatched(rule, generation, *instance_set.originals[:2])
    costs = instance_set.true_cost(torch.arange(len(instance_set.names)), sequences)
    return 100 * (costs / instance_set.references - 1).mean().item()


def test_rules_are_fourteen_and_six_more_where_there_are_due_dates():
    drawn = original_of(with_due_dates(random_instances(1, 2, 2, seeded(0)), seeded(0)))
    assert rules_for(drawn) == [*RULES, *DUE_RULES] and len(RULES) == 14 and len(DUE_RULES) == 6
    assert rules_for(drawn._replace(weight=torch.zeros_like(drawn.weight))) == list(RULES)


SIZE = st.tuples(st.integers(1, 6), st.integers(1, 5)).filter(lambda size: size[0] * size[1] >= 2)


@pytest.mark.parametrize("name", [*RULES, *DUE_RULES])
@pytest.mark.parametrize("draw", [random_instances, random_general_instances])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(size=SIZE, longest=st.sampled_from([2, 5, 99]), seed=st.integers(0, 1000))
def test_rules_schedule_as_plain_python_does(draw, name, size, longest, seed):
    drawn = draw(3, *size, seeded(seed))
    drawn = drawn._replace(times=drawn.times % longest)  # many ties, and times of 0
    drawn = with_due_dates(drawn, seeded(seed))
    found = dispatch_job_shop(Original(*(field.long() for field in original_of(drawn))), name)
    for row in range(3):
        decisions = plain_rule(drawn, row, *(RULES | DUE_RULES)[name])
        assert found[row].tolist() == [job for job, _ in decisions]


LARGE = [("30x15", 24.1), ("30x20", 24.9), ("50x15", 16.5), ("50x20", 17.8), ("100x20", 8.3)]


@pytest.mark.parametrize(
    ("size", "published"),
    [("15x15", 19.1), ("20x15", 23.3), ("20x20", 21.8)]
    + [pytest.param(*large, marks=pytest.mark.slow) for large in LARGE],
)
def test_most_work_remaining_is_as_good_as_published(size, published):
    assert mean_gap("MWR", "non_delay", f"taillard/{size}") == pytest.approx(published, abs=0.5)


@pytest.mark.parametrize(("rule", "generation"), RULES.values())
def test_rules_do_not_depend_on_the_unit_of_time(rule, generation):
    drawn = random_instances(50, 6, 6, seeded(4))
    times = drawn.times.long() % 10 + 1
    expected = dispatched(rule, generation, times, drawn.machines)
    for factor in (3, 10**9 + 7):
        assert torch.equal(dispatched(rule, generation, times * factor, drawn.machines), expected)


def test_more_instances_than_are_dispatched_together():
    drawn = random_instances(2 * 1024 + 3, 2, 2, seeded(5))
    steps = []
    found = Heuristic().solve("jssp", jssp(drawn.times.long(), drawn.machines), steps.append)
    assert steps == [1024, 1024, 3] and list(found) == list(RULES)
    for name, rule in RULES.items():
        assert torch.equal(found[name].actions, dispatched(*rule, *drawn[:2])) and found[name].seconds > 0
