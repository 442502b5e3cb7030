"""The general job shop: jobs of any lengths that visit machines any number of times, releases, waits, fixed parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

import gumbeldore
from gumbeldore.batches import repeated, take
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.testing import problem_contract
from gumbeldore.training.dataset import PseudoExperts, Shard, read_shard
from gumbeldore.training.given_experts import read_experts
from problems.formats.job_shop import NOT_FIXED
from problems.jssp import JSSP, Instance
from problems.jssp.instances import job_shop, lengths_of, random_general_instances, random_instances
from problems.jssp.objectives import MAKESPAN, OBJECTIVES
from problems.jssp.originals import Original, original_of
from problems.jssp.schedules import check_schedule, schedule
from problems.jssp.sets import JobShopSets
from problems.jssp.solver import solve as solve_jssp
from problems.solvers.answer import Options
from tests.helpers.policies import FixedPolicy
from tests.helpers.schedules import one_size, plain_general_cost, plain_general_schedule
from tests.helpers.tensors import same_tensors

SIZES = [(4, 3), (3, 5), (5, 1), (1, 4), (2, 2), (7, 4)]


def drawn(n, jobs, machines, seed=0, zeros=0.3):
    """General instances, some of whose operations take no time, and random sequences of their jobs."""
    generator = torch.Generator().manual_seed(seed)
    instance = random_general_instances(n, jobs, machines, generator)
    none = torch.rand(instance.times.shape, generator=generator) < zeros
    order = torch.rand(n, jobs * machines, generator=generator).argsort(dim=1)
    actions = (instance.operations // instance.times.shape[2]).gather(1, order)
    return instance._replace(times=instance.times.masked_fill(none, 0.0)), actions


# ---- the rules


@pytest.mark.parametrize("size", SIZES)
def test_contract(size):
    for seed in range(3):
        problem_contract(one_size(*size, general=1.0, chronological=True, reversal=True), seed=seed)


@pytest.mark.parametrize(("jobs", "machines"), SIZES)
def test_schedules_equal_those_of_plain_python(jobs, machines):
    instance, actions = drawn(30, jobs, machines)
    start, problem = schedule(instance, actions), one_size(jobs, machines)
    check_schedule(instance, start)
    for row in range(30):
        for (job, op), (begin, _) in plain_general_schedule(instance, row, actions[row].tolist()).items():
            assert start[row, job, op] == begin
        assert problem.cost(instance, actions)[row] == plain_general_cost(instance, row, actions[row].tolist())


def test_drawn_instances_are_general():
    """Jobs of different lengths, several visits and none, waits and releases; each machine has as many operations."""
    instance, _ = drawn(200, 5, 4)
    assert len(set(lengths_of(instance).flatten().tolist())) == 5 and (lengths_of(instance).sum(dim=1) == 20).all()
    assert instance.queues.shape == (200, 4, 5) and (instance.queues < 5 * 6).all()
    for field, count in ((instance.waits, 4000), (instance.release, 1000), (instance.machine_release, 800)):
        assert 0.2 < (field > 0).sum() / count < 0.4
    machines = instance.machines.flatten(1).gather(1, instance.operations)
    jobs = instance.operations // 6
    visits = torch.zeros(200, 20, dtype=torch.int64).scatter_add_(1, jobs * 4 + machines, torch.ones_like(jobs))
    assert visits.min() == 0 and visits.max() > 2
    mixed = JSSP([[5, 4]], [[5, 4]], general=0.3)
    general = [mixed.generate(1, torch.Generator().manual_seed(seed)).times.shape[2] == 6 for seed in range(200)]
    assert 35 < sum(general) < 85  # 60 expected
    with pytest.raises(ValueError, match="general must be a share in 0..1, got 2"):
        JSSP([[5, 4]], [[5, 4]], general=2)


TOGETHER = ("waits", "release", "machine_release", "machines")
CASES = [((name,), MAKESPAN) for name in TOGETHER] + [(TOGETHER, objective) for objective in OBJECTIVES]


@pytest.mark.parametrize(("fields", "objective"), CASES)
def test_brute_force_finds_what_a_search_and_the_solver_find(fields, objective):
    """Each field alone and all together; the best of all sequences is as good as CP-SAT's start times."""
    generator = torch.Generator().manual_seed(3)
    drawn_machines = random_general_instances if "machines" in fields else random_instances
    instance = drawn_machines(12, 3, 2, generator)
    for name in ("waits", "release", "machine_release"):
        some = torch.randint(1, 300, getattr(instance, name).shape, generator=generator).float()
        instance = instance._replace(**{name: some if name in fields else torch.zeros_like(some)})
    problem = one_size(3, 2, objective=objective)
    instance = problem.with_objective(Instance.restored(instance.stored()), generator)
    every = methods.WithoutReplacement(16, 16)
    found = search(problem, FixedPolicy(problem), instance, every, torch.Generator().manual_seed(0))
    optima = []
    for row in range(12):
        jobs = (instance.operations[row] // instance.times.shape[2]).tolist()
        sequences = set(itertools.permutations(jobs))
        best = min(plain_general_cost(instance, row, actions) for actions in sequences)
        leaves = {tuple(actions) for actions in found.actions[row][found.valid[row]].tolist()}
        assert leaves == sequences and found.best()[1][row] == best
        assert objective != MAKESPAN or instance.lower_bound()[row] <= best
        optima.append(best)
    pytest.importorskip("ortools")
    originals = Original(*(field.long() for field in original_of(instance)))
    for row, best in enumerate(optima):
        answer = solved(take(originals, slice(row, row + 1)))
        assert answer.highest == best == plain_general_cost(instance, row, answer.actions.tolist())


def solved(original):
    """CP-SAT's answer for one instance."""
    answer = solve_jssp(Original(*(field[0] for field in original)), Options(5.0, 0, None))
    assert answer.kind == "optimal (CP-SAT)" and answer.lowest == answer.highest
    return answer


@pytest.mark.parametrize(
    ("job", "place", "by", "rule"),
    [
        (1, 1, -1, "starts before its job is ready"),  # the wait after its first operation is cut short
        (0, 1, -1, "starts before its job is released"),
        (1, 0, -1, "starts before its machine is released"),
        (0, 2, 7, "overlaps another on its machine"),
    ],
)
def test_infeasible_schedules_are_found(job, place, by, rule):
    """Job 0 visits machine 0 twice, from place 1 on; job 1 visits the machines 1, 0 and 1."""
    times, machines = torch.tensor([[[5, 4, 0], [6, 7, 3]]]), torch.tensor([[[0, 0, -1], [1, 0, 1]]])
    waits = torch.tensor([[[0, 9, 9], [4, 1, 9]]])
    shop = job_shop(times, machines, torch.tensor([[2, 0]]), torch.tensor([[0, 3]]), waits)
    start = schedule(shop, torch.tensor([[0, 1, 0, 1, 1]]))
    assert start.tolist() == [[[0, 2, 7], [3, 13, 21]]]
    check_schedule(shop, start)
    start = start.repeat(3, 1, 1)
    start[1, job, place] += by
    with pytest.raises(ValueError, match=f"^row 1: an operation {rule}"):
        check_schedule(repeated(shop, 3), start)


def test_backwards_in_time():
    """Without releases, a schedule's mirror image is one of the reversed jobs, and to reverse twice changes nothing."""
    instance, actions = drawn(40, 5, 4, seed=2)
    free = instance._replace(
        release=torch.zeros_like(instance.release), machine_release=torch.zeros_like(instance.machine_release)
    )
    every = torch.ones(40, dtype=torch.bool)
    other = free.backwards(every)
    start = schedule(free, actions)
    ends = (start + free.times).amax(dim=(1, 2), keepdim=True)
    mirrored = free._replace(times=ends - start - free.times).backwards(every).times  # start times of the mirror image
    check_schedule(other, mirrored)
    assert (one_size(5, 4).cost(other, actions.flip(1)) <= ends.flatten()).all()
    assert same_tensors(other.backwards(every), free)
    assert same_tensors(free.backwards(~every), free)
    each, restored = one_size(5, 4).equivalents(instance, 2)
    assert same_tensors(each, repeated(instance, 2))  # releases have no mirror image
    assert torch.equal(restored(actions[:, None].repeat_interleave(2, 0)).squeeze(1)[::2], actions)
    reversed_half, turned = one_size(5, 4, reversal=True).augment(instance, actions, 0, torch.Generator())
    assert same_tensors(reversed_half, instance) and torch.equal(turned, actions)  # releases have no mirror image


# ---- what is fixed


def cut(instance, actions, now):
    """What has begun before `now` fixed, with time 0 then: originals, and the rest of the one sequence of jobs."""
    start = schedule(instance, actions)
    original = Original(*(field.long() for field in original_of(instance)))
    begun = original.there & (start < now)
    begun = begun & (begun | ~original.there).cummin(dim=2).values  # operations of no time may overtake
    original = original._replace(
        fixed=torch.where(begun, start.long() - now, NOT_FIXED),
        release=(original.release - now).clamp(min=0),
        machine_release=(original.machine_release - now).clamp(min=0),
    )
    done = begun.sum(dim=2)[0].tolist()
    rest = []
    for job in actions[0].tolist():
        done[job] -= 1
        if done[job] < 0:
            rest.append(job)
    return original, torch.tensor([rest])


def test_the_rest_of_a_schedule_is_that_of_the_shop_that_remains():
    """Whatever has begun at any time is fixed: the same sequence goes on to the same makespan."""
    checked = 0
    for seed in range(60):
        instance, actions = drawn(1, 5, 4, seed, zeros=0.2)
        makespan = int(one_size(5, 4).cost(instance, actions))
        for now in (1, makespan // 3, 2 * makespan // 3):
            original, rest = cut(instance, actions, now)
            original.check("the shop")
            shop = original.to_schedule()
            if not 0 < rest.shape[1] < 20:
                continue
            start = original.all_starts(schedule(shop, rest))
            there = original.there
            assert torch.equal(start[there] + now, schedule(instance, actions).long()[there])
            arrays = {name: field.numpy() for name, field in original._asdict().items() if name != "first"}
            arrays["fixed"] = np.where(arrays["fixed"] == NOT_FIXED, np.nan, arrays["fixed"])
            instance_set = JobShopSets().from_arrays(arrays, "arrays")
            assert instance_set.true_cost(torch.tensor([0]), rest).item() == makespan - now
            assert instance_set.lower_bounds.item() <= makespan - now
            checked += 1
    assert checked > 100


TWO_JOBS = {"times": np.array([[[5, 4, 3], [6, 7, 0]]]), "machines": np.array([[[0, 1, 0], [1, 0, -1]]])}
NONE = np.nan


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (
            {"fixed": [[[NONE, 5, NONE], [NONE, NONE, NONE]]]},
            "job 0, operation 1: it is fixed, the operation before it",
        ),
        ({"fixed": [[[-5, -1, NONE], [NONE] * 3]]}, "job 0, operation 1: it is fixed at -1, before its job is ready"),
        ({"fixed": [[[-3, NONE, NONE], [-7, 1, NONE]]]}, "job 1, operation 1: it is fixed at 1, while another fixed"),
        (
            {"fixed": [[[NONE] * 3, [0, 6, 20]]]},
            r"fixed\[0, 1, 2\] must not be given, machines\[0, 1, 2\] is -1: no operation",
        ),
        ({"fixed": [[[1e15, NONE, NONE], [NONE] * 3]]}, "job 0, operation 0: its fixed start must be within 1e"),
        ({"fixed": [[[0.5, NONE, NONE], [NONE] * 3]]}, "fixed must be whole numbers"),
        ({"fixed": [[[0, 6, 13], [0, 13, NONE]]]}, ": there is no operation to be scheduled"),
        ({"waits": [[[0, -2, 0], [0, 0, 0]]]}, "job 0, operation 1: waits must not be negative, got -2"),
        ({"release": [[0, -1]]}, "job 1: release must not be negative, got -1"),
        ({"machine_release": [[0, -1]]}, "machine 1: machine_release must not be negative, got -1"),
        (
            {"machine_release": [5]},
            r"machine_release must be .*\[1, 2\] \(one for each machine\), got int64 \[1\]",
        ),
        (
            {"machine_release": 5},
            r"machine_release must be .*\[1, 2\] \(one for each machine\), got int64 \[\]",
        ),
        ({"machine_release": [[0]]}, "job 0, operation 1: there are 1 machines, not one for 1"),
        ({"dew": [[0, 1]]}, "may hold cost, due, fixed, machine_release, reference, release, waits and weight, got"),
    ],
)
def test_wrong_input_names_job_and_operation(more, rule):
    with pytest.raises(ValueError, match=f"^the arrays.*{rule}"):
        JobShopSets().from_arrays({**TWO_JOBS, **{name: np.array(value) for name, value in more.items()}}, "the arrays")


@pytest.mark.parametrize(
    ("fixed", "more", "warned"),
    [
        ([[50, NONE, NONE], [NONE] * 3], {}, True),  # the 7 of job 1 on machine 0 would fit behind its 6 on machine 1
        ([[13, NONE, NONE], [NONE] * 3], {}, True),
        ([[12, NONE, NONE], [NONE] * 3], {}, False),
        ([[50, NONE, NONE], [NONE] * 3], {"machine_release": [[44, 0]]}, False),
        ([[50, NONE, NONE], [NONE] * 3], {"machine_release": [[43, 0]]}, True),
        ([[50, NONE, NONE], [NONE] * 3], {"release": [[0, 37]]}, True),
        ([[50, NONE, NONE], [NONE] * 3], {"release": [[0, 38]]}, False),
        ([[-3, NONE, NONE], [-2, NONE, NONE]], {}, False),  # what has begun
        ([[NONE] * 3] * 2, {}, False),
        ([[0, 5, 50], [NONE] * 3], {}, True),  # between the fixed operations of job 0
        ([[0, 5, 50], [NONE] * 3], {"waits": [[[0, 0, 0], [38, 0, 0]]]}, False),  # not before 6 + 38
    ],
)
def test_a_fixed_operation_on_a_machine_that_others_could_use_before_is_warned_of(fixed, more, warned):
    arrays = TWO_JOBS | {"fixed": np.array([fixed])} | {name: np.array(value) for name, value in more.items()}
    found = JobShopSets().from_arrays(arrays, "x")
    place = 2 if fixed[0][0] == 0 else 0
    rule = "nothing starts before a fixed operation on its machine; breaks are not supported"
    start = fixed[0][place]
    line = f"x/0: job 0, operation {place} is fixed at {start}, and others could run on its machine before it: {rule}"
    assert found.warnings == [line] * warned


def test_a_shop_of_ones_own_is_solved_and_shown(tmp_path):
    """Job 1 is on machine 1 since -2; job 0 cannot begin before 3, and machine 0 is out until 4."""
    result = gumbeldore.solve(
        "jssp",
        times=TWO_JOBS["times"][0],
        machines=TWO_JOBS["machines"][0],
        release=[3, 0],
        machine_release=[4, 0],
        waits=[[1, 0, 0], [2, 0, 0]],
        fixed=[[NONE] * 3, [-2, NONE, NONE]],
        method="greedy",
    )
    (first, second) = result.schedule
    assert second[0] == (1, -2, 4) and len(second) == 2 and len(first) == 3
    assert first[0].start >= 4 and second[1].start >= 6 and first[1].start >= first[0].end + 1
    assert result.cost == max(first[-1].end, second[-1].end)
    result.save(tmp_path / "plan.csv")
    assert (tmp_path / "plan.csv").read_text().splitlines()[4:] == [
        f"1,{op},{machine},{start},{end}" for op, (machine, start, end) in enumerate(second)
    ]


def test_instances_of_different_lengths_are_solved_together():
    """Arrays of the same shapes, but in one an operation more is there."""
    shops = [{name: array[0] for name, array in TWO_JOBS.items()}, {"times": [[1, 2, 3], [4, 5, 6]]}]
    shops[1]["machines"] = [[0, 1, 0], [1, 0, 1]]
    results = gumbeldore.solve("jssp", shops, method="greedy")
    assert [sum(map(len, result.schedule)) for result in results] == [5, 6]
    arrays = {name: np.stack([shop[name] for shop in shops]) for name in shops[0]}
    with pytest.raises(ValueError, match="all instances must have the same number of operations .*, got 5, 6: give"):
        JobShopSets().from_arrays(arrays, "x.npz")


def test_pictures_show_releases_and_what_is_fixed():
    arrays = {**TWO_JOBS, "release": np.array([[3, 0]]), "machine_release": np.array([[4, 0]])}
    fixed = np.array([[[NOT_FIXED] * 3, [-2, NOT_FIXED, NOT_FIXED]]])
    original = Original.of({**arrays, "fixed": fixed})
    figure = one_size(2, 2).reports.render(original, torch.tensor([[0, 0, 1, 0]]), ["plan"])
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    grey, *bars = axes.patches
    assert (grey.get_x(), grey.get_width(), len(bars)) == (0, 4, 5)
    assert [bar.get_hatch() for bar in bars] == ["", "", "", "////", ""] and bars[3].get_x() == -2
    (release,) = axes.lines
    assert release.get_xdata() == [3] and axes.get_xlim()[0] == -2


def test_late_releases_cost_no_digits():
    """Times since 1970: in float32 beside 1.7e9 seconds, minutes would be lost."""
    arrays = {name: array.copy() for name, array in TWO_JOBS.items()}
    (plain,), (late,) = (
        [JobShopSets().from_arrays({**arrays, "release": np.array([[r, r + 30]])}, "x")] for r in (0, 17 * 10**8)
    )
    assert same_tensors(plain.instances, late.instances)
    actions = torch.tensor([[0, 1, 0, 1, 0]])
    assert late.costs(actions) == plain.costs(actions) + 17 * 10**8


def test_jobs_without_operations_do_not_count():
    """A job that is released late, but has nothing to do any more, or never had."""
    arrays = {name: array.copy() for name, array in TWO_JOBS.items()}
    arrays["times"][0, 1], arrays["machines"][0, 1], arrays["release"] = 0, -1, np.array([[0, 10**6]])
    instance_set = JobShopSets().from_arrays(arrays, "x")
    assert instance_set.true_cost(torch.tensor([0]), torch.tensor([[0, 0, 0]])).item() == 12
    assert instance_set.lower_bounds.item() == 12 and instance_set.instances.release[0, 0] == 0


def test_braces_in_a_name_do_no_harm(tmp_path):
    path = tmp_path / "x{y}.json"
    path.write_text('{"machines": 2, "jobs": [{"operations": [{"machine": 3, "time": 1}, {"machine": 1, "time": 1}]}]}')
    with pytest.raises(ValueError, match=r"x\{y\}\.json: job 0, operation 0: there are 2 machines, not one for 3"):
        JobShopSets().load(str(path))


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"machines": torch.tensor([[[0, 3], [1, 0]]])}, r"machines must be in 0..1, or -1"),
        ({"machines": torch.tensor([[[0, -7], [1, 0]]])}, r"machines must be in 0..1, or -1"),
        ({"release": torch.ones(1, 5)}, r"release must be \[1, 2\], got \[1, 5\]"),
        ({"waits": torch.ones(1, 2, 3)}, r"waits must be \[1, 2, 2\], got \[1, 2, 3\]"),
        ({"times": torch.ones(1, 2, 3)}, r"the same shape \[n, J, O\], got \[1, 2, 3\] and \[1, 2, 2\]"),
    ],
)
def test_malformed_shops_are_refused(fields, rule):
    whole = {
        "times": torch.ones(1, 2, 2),
        "machines": torch.tensor([[[0, 1], [1, 0]]]),
        "machine_release": torch.ones(1, 2),
    }
    with pytest.raises(ValueError, match=rule):
        job_shop(**{**whole, **fields})


# ---- files


def test_experts_are_written_and_read(tmp_path):
    """A file holds what users write, and what follows from it is made anew; times and machines alone will do."""
    problem = one_size(5, 4, general=1.0)
    instance, actions = drawn(6, 5, 4, zeros=0.0)
    costs = problem.cost(instance, actions)
    PseudoExperts(tmp_path).add(Shard("general", instance, actions, costs))
    with np.load(tmp_path / "general.npz") as file:
        names = {"times", "machines", "release", "machine_release", "waits", "due", "weight"}
        assert set(file.files) == {"actions", "costs", *(f"instance.{name}" for name in names)}
        given = {name: file[f"instance.{name}"] for name in names}
    shard = read_shard(tmp_path / "general.npz", Instance)
    assert same_tensors(shard.instances, instance)
    (again,) = read_experts(tmp_path / "general.npz", problem, problem.generate(1, torch.Generator()))
    assert again.costs.shape == (6,)
    whole = JobShopSets().from_arrays({**given, "cost": costs.numpy()}, "x")
    assert torch.equal(whole.true_cost(torch.arange(6), actions), costs.double())
    np.savez(tmp_path / "few.npz", actions=actions, costs=costs, **{"instance.times": given["times"]})
    with pytest.raises(ValueError, match=r"few\.npz is damaged .* it lacks the arrays instance.machines"):
        read_shard(tmp_path / "few.npz", Instance)


def test_the_fields_do_not_change_a_classical_instance():
    instance = one_size(4, 3).generate(9, torch.Generator().manual_seed(0))
    assert same_tensors(instance, job_shop(*instance[:2]))
    assert same_tensors(instance, Instance.restored(instance.stored()))
    assert instance.operations.tolist() == [list(range(12))] * 9
    for row in range(9):
        for machine, queue in enumerate(instance.queues[row].tolist()):
            assert queue == [3 * job + instance.machines[row, job].tolist().index(machine) for job in range(4)]
