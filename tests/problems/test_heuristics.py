"""Classical heuristics: dispatching rules against plain Python and published results, OR-Tools' first solutions."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from problems.cvrp import CVRP
from problems.cvrp import instances as cvrp_types
from problems.distances import SCALED_TO
from problems.formats import cvrplib, tsplib
from problems.formats.tsplib import edge_lengths
from problems.heuristics import Heuristic, dispatching
from problems.heuristics.dispatching import GENERATIONS, PRIORITIES, RULES
from problems.jssp import instances as jssp_types
from problems.jssp.instances import check_schedule, random_instances, schedule
from problems.jssp.plots import plot_schedules
from problems.jssp.sets import load_jssp, validation
from problems.solvers import Solver
from tests.helpers.schedules import sequence_of
from tests.helpers.unsolved import cvrp, jssp, random_points, tsp

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


# ---- dispatching rules


def dispatched(rule: str, generation: str, times: torch.Tensor, machines: torch.Tensor) -> torch.Tensor:
    """The rule's sequences of jobs [n, J*M]."""
    original = jssp_types.Original(times.long(), machines, torch.zeros(len(times), dtype=torch.int64))
    return dispatching.dispatch(original, f"{rule} ({generation})")


def mean_gap(rule: str, generation: str, source: str) -> float:
    """In percent, to the best-known makespans."""
    (benchmark,) = load_jssp(source)
    sequences = dispatched(rule, generation, *benchmark.originals[:2])
    costs = benchmark.true_cost(torch.arange(len(benchmark.names)), sequences)
    return 100 * (costs / benchmark.references - 1).mean().item()


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
        for times, machines in zip(*drawn, strict=True)
    ]
    assert dispatched(rule, generation, *drawn).tolist() == expected


@pytest.mark.parametrize(("rule", "generation"), RULES.values())
def test_schedules_are_feasible_and_active(rule, generation):
    instance = random_instances(4, 6, 5, torch.Generator().manual_seed(1))
    start = schedule(*instance, dispatched(rule, generation, *instance))
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


def test_equal_jobs_are_taken_in_their_order():
    times, machines = torch.full((1, 5, 2), 7), torch.tensor([[[0, 1]] * 5])
    for rule, generation in RULES.values():
        starts = schedule(times, machines, dispatched(rule, generation, times, machines))[0, :, 0]
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
    gap = {}
    for name, (actions, _) in Heuristic().solve("jssp", benchmark).items():
        costs = benchmark.true_cost(torch.arange(200), actions)
        assert (costs >= benchmark.references).all()  # those are optimal
        gap[RULES[name]] = 100 * (costs / benchmark.references - 1).mean().item()
    assert all(gap[rule, "non_delay"] <= gap[rule, "active"] + 1 for rule in PRIORITIES)
    for rule, opposite in (("SPT", "LPT"), ("MWR", "LWR"), ("MOR", "LOR")):
        assert gap[rule, "non_delay"] < gap[opposite, "non_delay"]
    assert min(gap, key=gap.get) in [("MWR", "non_delay"), ("MOR", "non_delay")] and min(gap.values()) < 14


@pytest.mark.parametrize(("rule", "generation"), RULES.values())
def test_rules_do_not_depend_on_the_unit_of_time(rule, generation):
    drawn = random_instances(50, 6, 6, torch.Generator().manual_seed(4))
    times = drawn.times.long() % 10 + 1
    expected = dispatched(rule, generation, times, drawn.machines)
    for factor in (3, 10**9 + 7):
        assert torch.equal(dispatched(rule, generation, times * factor, drawn.machines), expected)


def test_fisher_and_thompson():
    (benchmark,) = load_jssp(str(DATA / "jssp" / "ft06.txt"))
    times, machines = benchmark.originals[:2]
    found = benchmark.true_cost(torch.tensor([0]), dispatched("MWR", "non_delay", times, machines)).item()
    sequence = torch.tensor([sequence_of("MWR", "non_delay", times[0].tolist(), machines[0].tolist())])
    assert found == benchmark.true_cost(torch.tensor([0]), sequence).item() == 61  # the optimum is 55


def test_more_instances_than_are_dispatched_together():
    drawn = random_instances(2 * 1024 + 3, 2, 2, torch.Generator().manual_seed(5))
    steps = []
    found = Heuristic().solve("jssp", jssp(drawn.times.long(), drawn.machines), steps.append)
    assert steps == [1024, 1024, 3] and list(found) == list(RULES)
    for name, rule in RULES.items():
        assert torch.equal(found[name].actions, dispatched(*rule, *drawn)) and found[name].seconds > 0


# ---- OR-Tools' first solutions


@pytest.fixture
def ortools():
    pytest.importorskip("ortools")


def random_cvrp(n: int, customers: int, metric: str = "EUCLIDEAN", scale: float = 1.0):
    drawn = CVRP(customers, [20, 30]).generate(n, torch.Generator().manual_seed(6))
    return cvrp(scale * drawn.coords.double(), drawn.demands, drawn.capacity, [metric] * n)


def lengths(coords: torch.Tensor, metric: str) -> list[list[float]]:
    return edge_lengths(coords[:, None], coords[None], metric).tolist()


@pytest.mark.parametrize(
    ("problem", "metric"), [("tsp", x) for x in tsplib.METRICS] + [("cvrp", x) for x in cvrplib.METRICS]
)
def test_solutions_are_legal_and_cost_what_plain_python_says(ortools, problem, metric):
    scale = {"EUCLIDEAN": 1.0, "GEO": 80.0}.get(metric, 100.0)
    benchmark = tsp(random_points(3, 16, scale=scale), [metric] * 3)
    if problem == "cvrp":
        benchmark = random_cvrp(3, 15, metric, scale)
    steps = []
    found = Heuristic().solve(problem, benchmark, steps.append)
    assert steps == [1, 1, 1] and len(found) >= 2
    for actions, seconds in found.values():
        assert actions.shape == (3, 15) and actions.dtype == torch.int64 and seconds > 0
        costs = benchmark.true_cost(torch.arange(3), actions)
        for i in range(3):
            length = lengths(benchmark.originals.coords[i], metric)
            routes = [actions[i].tolist()] if problem == "tsp" else cvrp_types.as_routes(actions[i])
            assert sorted(node for route in routes for node in route) == list(range(1, 16))
            if problem == "cvrp":
                demands, capacity = benchmark.originals.demands[i].tolist(), benchmark.originals.capacity[i]
                assert all(sum(demands[node] for node in route) <= capacity for route in routes)
            walks = [[0, *route, 0] for route in routes]
            cost = sum(0.0 if a == b else length[a][b] for walk in walks for a, b in pairwise(walk))
            assert costs[i].item() == pytest.approx(cost, rel=1e-12)


def test_customers_in_a_row_are_served_as_savings_say(ortools):
    """By hand: two customers east and two west of the depot. Those of one side save 2 and 4, all others nothing."""
    coords = torch.tensor([[[0.0, 0], [1, 0], [2, 0], [-1, 0], [-2, 0]]], dtype=torch.float64)
    demands = torch.tensor([[0, 1, 1, 1, 1]])
    benchmark = cvrp(coords, demands, torch.tensor([2]), ["EUCLIDEAN"])
    actions = Heuristic().solve("cvrp", benchmark)["savings"].actions
    assert sorted(map(sorted, cvrp_types.as_routes(actions[0]))) == [[1, 2], [3, 4]]
    assert benchmark.true_cost(torch.tensor([0]), actions).item() == 8
    alone = cvrp(coords, demands, torch.tensor([1]), ["EUCLIDEAN"])
    actions = Heuristic().solve("cvrp", alone)["savings"].actions
    assert alone.true_cost(torch.tensor([0]), actions).item() == 12  # nobody shares a vehicle


def clarke_wright(length: list[list[float]], demands: list[int], capacity: float) -> list[list[int]]:
    """The routes of the textbook: down the sorted list of savings, two routes are joined at their ends if both fit."""
    routes = {node: [node] for node in range(1, len(length))}  # of each customer
    savings = [(length[0][a] + length[0][b] - length[a][b], a, b) for a in routes for b in routes if a < b]
    for saving, a, b in sorted(savings, reverse=True):
        first, second = routes[a], routes[b]
        ends = a in (first[0], first[-1]) and b in (second[0], second[-1])
        if saving > 0 and first is not second and ends and sum(demands[x] for x in first + second) <= capacity:
            joined = (first if first[-1] == a else first[::-1]) + (second if second[0] == b else second[::-1])
            routes |= dict.fromkeys(joined, joined)
    return list({id(route): route for route in routes.values()}.values())


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_savings_are_about_those_of_the_textbook(ortools, problem):
    """OR-Tools joins the end of a route with the beginning of another; the textbook turns routes round, too."""
    benchmark = random_cvrp(100, 20) if problem == "cvrp" else tsp(random_points(100, 21), ["EUCLIDEAN"] * 100)
    found = Heuristic().solve(problem, benchmark)["savings"].actions
    expected = []
    for i in range(100):
        length = lengths(benchmark.originals.coords[i], "EUCLIDEAN")
        demands, capacity = [0] * 21, math.inf
        if problem == "cvrp":
            demands, capacity = benchmark.originals.demands[i].tolist(), benchmark.originals.capacity[i].item()
        routes = clarke_wright(length, demands, capacity)
        expected.append(sum(length[a][b] for route in routes for a, b in pairwise([0, *route, 0])))
    costs, expected = benchmark.true_cost(torch.arange(100), found), torch.tensor(expected, dtype=torch.float64)
    assert costs.mean() == pytest.approx(expected.mean().item(), rel=0.02)
    assert ((costs - expected).abs() < 1e-9).double().mean() > 0.3


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_nothing_improves_the_first_solution(ortools, problem, monkeypatch):
    """Each strategy finds the same where every operator of local search is off; with them it finds better."""
    from ortools.constraint_solver import pywrapcp
    from ortools.util.optional_boolean_pb2 import BOOL_FALSE

    benchmark = random_cvrp(5, 30) if problem == "cvrp" else tsp(random_points(5, 31), ["EUCLIDEAN"] * 5)
    solve, unlimited = pywrapcp.RoutingModel.SolveWithParameters, pywrapcp.DefaultRoutingSearchParameters()

    def costs(solve):
        monkeypatch.setattr(pywrapcp.RoutingModel, "SolveWithParameters", solve)
        found = Heuristic().solve(problem, benchmark)
        return torch.stack([benchmark.true_cost(torch.arange(5), actions) for actions, _ in found.values()])

    def with_local_search(model, parameters):
        parameters.solution_limit = unlimited.solution_limit
        return solve(model, parameters)

    def without_operators(model, parameters):
        for field in parameters.local_search_operators.DESCRIPTOR.fields:
            setattr(parameters.local_search_operators, field.name, BOOL_FALSE)
        return with_local_search(model, parameters)

    first, improved = costs(solve), costs(with_local_search)
    assert torch.equal(costs(without_operators), first)
    assert (improved <= first).all() and (improved < first).double().mean() > 0.5


@pytest.mark.parametrize("problem", ["tsp", "cvrp"])
def test_heuristics_are_between_random_solutions_and_a_solver(ortools, problem, tmp_path):
    pytest.importorskip("pyvrp")
    benchmark = random_cvrp(4, 12) if problem == "cvrp" else tsp(random_points(4, 13), ["EUCLIDEAN"] * 4)
    solved = Solver(0.3, folder=tmp_path).solve(problem, benchmark)
    order = torch.rand(4, 12, generator=torch.Generator().manual_seed(7)).argsort(dim=1)
    shuffled = order + 1 if problem == "tsp" else order + 12  # by a vehicle each, which is no worse than random routes
    random = benchmark.true_cost(torch.arange(4), shuffled)
    for actions, _ in Heuristic().solve(problem, benchmark).values():
        costs = benchmark.true_cost(torch.arange(4), actions)
        assert (costs >= solved.costs - 1e-9).all() and (costs < random).all()


def test_distances_are_scaled_finely(ortools):
    """Points so near to each other that distances rounded more coarsely would not tell them apart."""
    steps = torch.tensor([0.0, 9, 2, 7, 4], dtype=torch.float64)[:, None] * torch.tensor([1e-5, 0.0])
    coords = torch.cat([steps, torch.tensor([[1.0, 0.0]], dtype=torch.float64)])[None]
    assert 1e-5 * SCALED_TO >= 100
    benchmark = tsp(coords, ["EUCLIDEAN"])
    actions = Heuristic().solve("tsp", benchmark)["savings"].actions
    assert benchmark.true_cost(torch.tensor([0]), actions).item() == pytest.approx(2.0, abs=1e-12)


def test_smallest_and_degenerate_routes(ortools):
    for metric in ("EUCLIDEAN", "EUC_2D"):
        benchmark = tsp(random_points(1, 3), [metric])
        for actions, _ in Heuristic().solve("tsp", benchmark).values():
            assert sorted(actions[0].tolist()) == [1, 2]
        for actions, _ in Heuristic().solve("tsp", tsp(torch.ones(1, 5, 2, dtype=torch.float64), [metric])).values():
            assert sorted(actions[0].tolist()) == [1, 2, 3, 4]
        benchmark = cvrp(
            torch.ones(1, 4, 2, dtype=torch.float64), torch.tensor([[0, 0, 3, 3]]), torch.tensor([3]), [metric]
        )
        for actions, _ in Heuristic().solve("cvrp", benchmark).values():
            assert benchmark.true_cost(torch.tensor([0]), actions).item() == 0  # refuses what is no solution


def test_every_vehicle_may_be_needed(ortools):
    benchmark = cvrp(random_points(1, 8), torch.tensor([[0, *[5] * 7]]), torch.tensor([9]), ["EUCLIDEAN"])
    for actions, _ in Heuristic().solve("cvrp", benchmark).values():
        assert len(cvrp_types.as_routes(actions[0])) == 7


def test_what_has_no_heuristic_is_refused(ortools):
    with pytest.raises(ValueError, match="there is no heuristic for problem chess; there are some for tsp, cvrp, jssp"):
        Heuristic().check("chess")


def test_ortools_is_needed_for_routes_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.constraint_solver.pywrapcp", None)
    for problem in ("tsp", "cvrp"):
        message = rf"method=heuristic needs OR-Tools for problem {problem}: pip install .* -e '.\[solvers\]'$"
        with pytest.raises(ValueError, match=message):
            Heuristic().check(problem)
    Heuristic().check("jssp")


@pytest.mark.slow
def test_heuristics_need_nothing_else_of_the_extra():
    """PyVRP takes a newer Python than the project; OR-Tools is not imported before it is used."""
    code = "import sys\nfor name in {}: sys.modules[name] = None\nfrom problems.heuristics import Heuristic"
    everything = [sys.executable, "-c", code.format("('pyvrp', 'ortools', 'ray')")]
    assert subprocess.run(everything, cwd=ROOT).returncode == 0
    pytest.importorskip("ortools")
    alone = [sys.executable, "-c", code.format("('pyvrp', 'ray')") + "\nHeuristic().check('cvrp')"]
    assert subprocess.run(alone, cwd=ROOT).returncode == 0


# ---- pictures of schedules


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
        with pytest.raises(ValueError, match="one title per solution is needed"):
            plot_schedules(zero, zero.long(), zero, titles)
