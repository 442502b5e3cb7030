"""Priority dispatching rules against plain Python and published results, and the pictures of their schedules."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from gumbeldore import methods
from gumbeldore.interfaces import Policy
from gumbeldore.search import search
from models.dispatching import BEHIND, GENERATIONS, PRIORITIES, RULES, DispatchingRule
from problems.gantt import plot_schedules
from problems.jssp import JSSP
from problems.jssp_types import Instance, check_schedule, random_instances, schedule
from problems.sets.jssp import load_jssp, validation

DATA = Path(__file__).parent / "data" / "jssp"
PROBLEM = JSSP(sizes=[[6, 6]], validation_sizes=[[6, 6]])


def greedy(rule: str, generation: str, instance: Instance) -> torch.Tensor:
    """The rule's sequences of jobs [R, J*M]."""
    return search(PROBLEM, DispatchingRule(rule, generation), instance, methods.greedy(), torch.Generator()).actions[
        :, 0
    ]


def mean_gap(rule: str, generation: str, source: str) -> float:
    """In percent, to the best-known makespans."""
    (benchmark,) = load_jssp(source)
    costs = benchmark.true_cost(torch.arange(len(benchmark.names)), greedy(rule, generation, benchmark.instances))
    return 100 * (costs / benchmark.references - 1).mean().item()


def sequence_of(rule: str, generation: str, times: list[list[int]], machines: list[list[int]]) -> list[int]:
    """The jobs in the order in which the rule schedules their operations, in plain Python."""
    next_op, job_free, machine_free = [0] * len(times), [0] * len(times), [0] * len(times[0])
    sequence = []
    while len(sequence) < len(times) * len(times[0]):
        open_jobs = [job for job in range(len(times)) if next_op[job] < len(times[0])]
        begin = {job: max(job_free[job], machine_free[machines[job][next_op[job]]]) for job in open_jobs}
        end = {job: begin[job] + times[job][next_op[job]] for job in open_jobs}
        if generation == "non_delay":
            candidates = [job for job in open_jobs if begin[job] == min(begin.values())]
        else:
            first = min(open_jobs, key=end.get)
            where = machines[first][next_op[first]]
            rivals = [job for job in open_jobs if machines[job][next_op[job]] == where]
            candidates = [job for job in rivals if job == first or begin[job] < end[first]]
        worth = {
            "SPT": lambda job: -times[job][next_op[job]],
            "LPT": lambda job: times[job][next_op[job]],
            "MWR": lambda job: sum(times[job][next_op[job] :]),
            "LWR": lambda job: -sum(times[job][next_op[job] :]),
            "MOR": lambda job: -next_op[job],
            "LOR": lambda job: next_op[job],
            "FIFO": lambda job: -job_free[job],
        }[rule]
        job = max(candidates, key=worth)  # the first of equals
        job_free[job] = machine_free[machines[job][next_op[job]]] = end[job]
        next_op[job] += 1
        sequence.append(job)
    return sequence


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
    assert len(RULES) == len(set(RULES)) == len(PRIORITIES) * len(GENERATIONS) == 14
    with pytest.raises(ValueError, match="rule must be one of SPT, LPT, .*FIFO, got 'spt'"):
        DispatchingRule("spt", "active")
    with pytest.raises(ValueError, match="generation must be one of non_delay, active, got 'delay'"):
        DispatchingRule("SPT", "delay")


SIZE = st.tuples(st.integers(1, 6), st.integers(1, 5)).filter(lambda size: size[0] * size[1] >= 2)


@pytest.mark.parametrize(("rule", "generation"), RULES)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(size=SIZE, longest=st.sampled_from([2, 5, 99]), seed=st.integers(0, 1000))
def test_rules_schedule_as_plain_python_does(rule, generation, size, longest, seed):
    drawn = random_instances(3, *size, torch.Generator().manual_seed(seed))
    instance = drawn._replace(times=drawn.times % longest + (longest < 5))  # many ties, and times of 0
    expected = [
        sequence_of(rule, generation, times.int().tolist(), machines.tolist())
        for times, machines in zip(*instance, strict=True)
    ]
    assert greedy(rule, generation, instance).tolist() == expected


@pytest.mark.parametrize(("rule", "generation"), RULES)
def test_schedules_are_feasible_and_active(rule, generation):
    instance = random_instances(4, 6, 5, torch.Generator().manual_seed(1))
    start = schedule(*instance, greedy(rule, generation, instance))
    check_schedule(*instance, start)
    for times, machines, begins in zip(*(array.int().tolist() for array in (*instance, start)), strict=True):
        earliest = [[earliest_gap(begins, times, machines, job, op) for op in range(5)] for job in range(6)]
        assert begins == earliest  # non-delay schedules are active, too
        if generation == "non_delay":
            for job in range(6):
                for op in range(5):
                    ready = begins[job][op - 1] + times[job][op - 1] if op else 0
                    busy = on_machine(begins, times, machines, machines[job][op])
                    idle = [t for t in range(ready, begins[job][op]) if not any(b <= t < e for b, e in busy)]
                    assert not idle  # while an operation waits, its machine works


@pytest.mark.parametrize(("rule", "generation"), RULES)
def test_logits_are_finite_and_rank_candidates_first(rule, generation):
    policy = DispatchingRule(rule, generation)
    assert isinstance(policy, Policy) and not list(policy.parameters())
    instance = random_instances(5, 4, 3, torch.Generator().manual_seed(2))
    state = PROBLEM.reset(instance)
    generator = torch.Generator().manual_seed(3)
    for _ in range(12):
        logits = policy(policy.encode(instance), state)
        legal = PROBLEM.mask(instance, state)
        assert logits.shape == (5, 4) and logits.dtype == torch.float32 and logits.isfinite().all()
        assert ((logits > -4) & legal).any(dim=1).all() and not ((logits > -4) & ~legal).any()
        assert ((logits > -4) | (logits <= -BEHIND)).all()
        assert all(len(set(row)) == 4 for row in logits.tolist())  # no ties
        state = PROBLEM.step(instance, state, torch.multinomial(legal.double(), 1, generator=generator)[:, 0])


def test_many_jobs_are_scheduled_by_the_rule_too():
    """1,500 jobs of which only the last can start first: those before it wait for its machine."""
    times, machines = torch.full((1, 1500, 2), 5.0), torch.tensor([[[0, 1]] * 1500])
    machines[:, -1] = torch.tensor([1, 0])
    instance = Instance(times, machines)
    state = JSSP([[2, 2]], [[2, 2]]).reset(instance)._replace(machine_free=torch.tensor([[9.0, 0.0]]))
    assert DispatchingRule("SPT", "non_delay")(instance, state).argmax() == 1499


def test_equal_jobs_are_taken_in_their_order():
    instance = Instance(torch.full((1, 5, 2), 7.0), torch.tensor([[[0, 1]] * 5]))
    for rule, generation in RULES:
        starts = schedule(*instance, greedy(rule, generation, instance))[0, :, 0]
        assert starts.tolist() == [0, 7, 14, 21, 28]


LARGE = [("30x15", 24.1), ("30x20", 24.9), ("50x15", 16.5), ("50x20", 17.8), ("100x20", 8.3)]


@pytest.mark.parametrize(
    ("size", "published"),
    [("15x15", 19.1), ("20x15", 23.3), ("20x20", 21.8)]
    + [pytest.param(*large, marks=pytest.mark.slow) for large in LARGE],
)
def test_most_work_remaining_is_as_good_as_published(size, published):
    assert mean_gap("MWR", "non_delay", f"taillard/{size}") == pytest.approx(published, abs=0.5)


def test_known_order_of_the_rules_on_random_instances():
    benchmark = validation(6, 6, 200)
    index = torch.arange(200)
    gap = {}
    for rule in RULES:
        costs = benchmark.true_cost(index, greedy(*rule, benchmark.instances))
        assert (costs >= benchmark.references).all()  # those are optimal
        gap[rule] = 100 * (costs / benchmark.references - 1).mean().item()
    assert all(gap[rule, "non_delay"] <= gap[rule, "active"] + 1 for rule in PRIORITIES)
    for rule, opposite in (("SPT", "LPT"), ("MWR", "LWR"), ("MOR", "LOR")):
        assert gap[rule, "non_delay"] < gap[opposite, "non_delay"]
    assert min(gap, key=gap.get) in [("MWR", "non_delay"), ("MOR", "non_delay")] and min(gap.values()) < 14


@pytest.mark.parametrize(("rule", "generation"), RULES)
def test_rules_do_not_depend_on_the_scale_of_the_times(rule, generation):
    """What is equal in truth must tie in float32, too; without the rounding, 37 to 77 % of such sequences differ."""
    drawn = random_instances(50, 6, 6, torch.Generator().manual_seed(4))
    instance = drawn._replace(times=drawn.times % 10 + 1)
    expected = greedy(rule, generation, instance)
    for factor in (9.9, 99 / 7, 1 / 3):
        found = greedy(rule, generation, instance._replace(times=instance.times * factor))
        assert (found == expected).all(dim=1).float().mean() > 0.95


def test_fisher_and_thompson():
    (benchmark,) = load_jssp(str(DATA / "ft06.txt"))
    found = benchmark.true_cost(torch.tensor([0]), greedy("MWR", "non_delay", benchmark.instances)).item()
    times, machines = (array[0].tolist() for array in benchmark.originals[:2])
    sequence = torch.tensor([sequence_of("MWR", "non_delay", times, machines)])
    assert found == benchmark.true_cost(torch.tensor([0]), sequence).item() == 61  # the optimum is 55


@pytest.mark.parametrize(("jobs", "machines"), [(3, 2), (15, 4), (25, 2)])
def test_pictures_show_every_operation_where_it_is(jobs, machines):
    times, orders = random_instances(3, jobs, machines, torch.Generator().manual_seed(0))
    sequence = torch.arange(jobs).repeat_interleave(machines).repeat(3, 1)
    start = schedule(times, orders, sequence)
    figure = plot_schedules(times, orders, start, ["a", "b", "c"])
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
        assert bool(written) == (jobs <= 20)


def test_pictures_need_one_title_each_and_may_take_no_time():
    zero = torch.zeros(1, 2, 2)
    FigureCanvasAgg(plot_schedules(zero, torch.tensor([[[0, 1], [1, 0]]]), zero, ["nothing"])).draw()
    for titles in ([], ["a", "b"]):
        with pytest.raises(ValueError, match="one title per schedule is needed"):
            plot_schedules(zero, zero.long(), zero, titles)
