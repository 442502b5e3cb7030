"""Dispatching rules for job shops, against plain Python and published results."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from problems.heuristics import Heuristic, dispatching
from problems.heuristics.dispatching import GENERATIONS, PRIORITIES, RULES
from problems.jssp.instances import random_instances
from problems.jssp.originals import Original
from problems.jssp.schedules import check_schedule, schedule
from problems.jssp.sets import JobShopSets
from tests.helpers.schedules import sequence_of
from tests.helpers.unsolved import jssp


def dispatched(rule: str, generation: str, times: torch.Tensor, machines: torch.Tensor) -> torch.Tensor:
    """The rule's sequences of jobs [n, J*M]."""
    original = Original.of({"times": times.long().numpy(), "machines": machines.numpy()})
    return dispatching.dispatch_job_shop(original, f"{rule} ({generation})")


def mean_gap(rule: str, generation: str, source: str) -> float:
    """In percent, to the best-known makespans."""
    (instance_set,) = JobShopSets().load(source)
    sequences = dispatched(rule, generation, *instance_set.originals[:2])
    costs = instance_set.true_cost(torch.arange(len(instance_set.names)), sequences)
    return 100 * (costs / instance_set.references - 1).mean().item()


def on_machine(start: list, times: list, machines: list, machine: int) -> list[tuple[int, int]]:
    """Start and end of the operations on a machine, in their order."""
    return sorted(
        (start[job][op], start[job][op] + times[job][op])
        for job in range(len(times))
        for op in range(len(times[0]))
        if machines[job][op] == machine
    )


def earliest_gap(start: list, times: list, machines: list, job: int, op: int) -> int:
    """When an operation could start at the earliest if all others stayed where they are."""
    ready = start[job][op - 1] + times[job][op - 1] if op else 0
    for begin, end in on_machine(start, times, machines, machines[job][op]):
        if begin == start[job][op]:
            break
        if ready + times[job][op] <= begin:
            return ready
        ready = max(ready, end)
    return ready


def test_there_are_fourteen_rules():
    assert len(RULES) == len(set(RULES.values())) == len(PRIORITIES) * len(GENERATIONS) == 14


SIZE = st.tuples(st.integers(1, 6), st.integers(1, 5)).filter(lambda size: size[0] * size[1] >= 2)


@pytest.mark.parametrize(("rule", "generation"), RULES.values())
@settings(max_examples=15, deadline=None, derandomize=True)
@given(size=SIZE, longest=st.sampled_from([2, 5, 99]), seed=st.integers(0, 1000))
def test_rules_schedule_as_plain_python_does(rule, generation, size, longest, seed):
    drawn = random_instances(3, *size, torch.Generator().manual_seed(seed))
    drawn = drawn._replace(times=drawn.times % longest)  # many ties, and times of 0
    expected = [
        sequence_of(rule, generation, times.int().tolist(), machines.tolist())
        for times, machines in zip(*drawn[:2], strict=True)
    ]
    assert dispatched(rule, generation, *drawn[:2]).tolist() == expected


@pytest.mark.parametrize(("rule", "generation"), RULES.values())
def test_schedules_are_feasible_and_active(rule, generation):
    instance = random_instances(4, 6, 5, torch.Generator().manual_seed(1))
    start = schedule(instance, dispatched(rule, generation, *instance[:2]))
    check_schedule(instance, start)
    for times, machines, begins in zip(*(array.int().tolist() for array in (*instance[:2], start)), strict=True):
        earliest = [[earliest_gap(begins, times, machines, job, op) for op in range(5)] for job in range(6)]
        assert begins == earliest  # non-delay schedules are active, too
        if generation == "non_delay":
            for job in range(6):
                for op in range(5):
                    ready = begins[job][op - 1] + times[job][op - 1] if op else 0
                    busy = on_machine(begins, times, machines, machines[job][op])
                    idle = [t for t in range(ready, begins[job][op]) if not any(b <= t < e for b, e in busy)]
                    assert not idle  # while an operation waits, its machine works


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
    drawn = random_instances(50, 6, 6, torch.Generator().manual_seed(4))
    times = drawn.times.long() % 10 + 1
    expected = dispatched(rule, generation, times, drawn.machines)
    for factor in (3, 10**9 + 7):
        assert torch.equal(dispatched(rule, generation, times * factor, drawn.machines), expected)


def test_more_instances_than_are_dispatched_together():
    drawn = random_instances(2 * 1024 + 3, 2, 2, torch.Generator().manual_seed(5))
    steps = []
    found = Heuristic().solve("jssp", jssp(drawn.times.long(), drawn.machines), steps.append)
    assert steps == [1024, 1024, 3] and list(found) == list(RULES)
    for name, rule in RULES.items():
        assert torch.equal(found[name].actions, dispatched(*rule, *drawn[:2])) and found[name].seconds > 0
