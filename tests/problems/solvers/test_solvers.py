"""Established solvers: optima of small instances, what is kept of their answers, what is refused, expert datasets."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

from problems.cvrp import instances as cvrp_types
from problems.formats.tsplib import METRICS, edge_lengths
from problems.jssp.originals import Original
from problems.jssp.solver import solve as solve_jssp
from problems.solvers import Solver, SolverError, with_references
from problems.solvers import backends as registry
from problems.solvers.answer import Options
from problems.solvers.baseline import wall_clock
from tests.helpers.schedules import read_job_shop
from tests.helpers.unsolved import cvrp, jssp, random_points, tsp

pytest.importorskip("pyvrp")
pytest.importorskip("ortools")

ROOT = Path(__file__).parents[3]


@pytest.fixture
def solver():
    return Solver(time_limit=0.2)


def ft06():
    return jssp(*(torch.tensor(array)[None] for array in read_job_shop("ft06")))


# ---- optima


@pytest.mark.parametrize("metric", METRICS)
def test_tsp_is_solved_to_the_optimum(solver, metric):
    scale = {"EUCLIDEAN": 1.0, "GEO": 80.0}.get(metric, 100.0)
    instance_set = tsp(random_points(2, 8, scale=scale), [metric] * 2)
    result = solver.solve("tsp", instance_set)
    everything = torch.tensor([list(p) for p in permutations(range(1, 8)) if p[0] < p[-1]])
    for i in range(2):
        costs = instance_set.true_cost(torch.full((len(everything),), i), everything)
        assert result.costs[i].item() == pytest.approx(costs.min().item(), abs=1e-12)
    assert result.actions.shape == (2, 7) and result.actions.dtype == torch.int64
    assert torch.equal(result.costs, instance_set.true_cost(torch.arange(2), result.actions))
    assert all(kind.startswith("PyVRP 0.") and kind.endswith(", 0.2 s") for kind in result.kinds)
    assert (result.seconds >= 0.2).all() and (result.seconds < 10).all()


@pytest.mark.parametrize("metric", ["EUCLIDEAN", "EUC_2D"])
def test_cvrp_is_solved_to_the_optimum(solver, metric):
    demands = torch.tensor([[0, 4, 3, 5, 2, 6, 1], [0, 9, 9, 9, 9, 9, 9], [0, 0, 1, 1, 1, 0, 0]])
    capacity = torch.tensor([9, 9, 3])  # several routes, one each, a single one
    coords = random_points(3, 7, scale=1.0 if metric == "EUCLIDEAN" else 100.0)
    instance_set = cvrp(coords, demands, capacity, [metric] * 3)
    result = solver.solve("cvrp", instance_set)
    assert torch.equal(result.costs, instance_set.true_cost(torch.arange(3), result.actions))
    for i in range(3):
        lengths = edge_lengths(coords[i][:, None], coords[i][None], metric)
        best = cheapest_routes(lengths.tolist(), demands[i].tolist(), int(capacity[i]))
        assert result.costs[i].item() == pytest.approx(best, abs=1e-12)
    routes = cvrp_types.decode(result.actions, 6)[1].sum(dim=1)
    assert routes[0] >= 3 and routes[1] == 6


def cheapest_routes(lengths, demands, capacity):
    """The optimal cost over all orders of the customers, each cut where it is cheapest."""
    best = math.inf
    for order in permutations(range(1, len(demands))):
        cheapest = [0.0] + [math.inf] * len(order)  # to have served the first so many
        for first in range(len(order)):
            load, inside = 0, 0.0
            for last in range(first, len(order)):
                load += demands[order[last]]
                inside += lengths[order[last - 1]][order[last]] if last > first else lengths[0][order[first]]
                if load > capacity:
                    break
                cheapest[last + 1] = min(cheapest[last + 1], cheapest[first] + inside + lengths[order[last]][0])
        best = min(best, cheapest[-1])
    return best


def forty_demands():
    demands = torch.randint(1, 10, (1, 41), generator=torch.Generator().manual_seed(1))
    demands[:, 0] = 0
    return demands


def test_overload_costs_enough_in_scaled_distances(solver):
    """By default, no penalty of PyVRP's would outweigh detours of millions: it would find nothing feasible."""
    demands = forty_demands()
    for metric, scale in (("EUCLIDEAN", 1.0), ("CEIL_2D", 1e8)):
        instance_set = cvrp(random_points(1, 41, scale=scale), demands, torch.tensor([20]), [metric])
        result = solver.solve("cvrp", instance_set)
        assert result.costs[0] < 20 * scale  # routes of one customer each would be twice as long


def test_the_unit_of_demands_does_not_matter():
    """Penalties of overload, multiplied by large demands, would leave 64 bits and mislead the search."""
    demands = forty_demands()
    points, solver = random_points(1, 41, scale=2e10), Solver(time_limit=20, patience=100)
    costs = [
        solver.solve("cvrp", cvrp(points, demands * unit, torch.tensor([capacity]), ["CEIL_2D"])).costs.item()
        for unit, capacity in ((1, 20), (50_000_000, 1_000_000_001))
    ]
    assert costs[0] == costs[1]
    demands[:, 1:] = demands[:, 1:] * 50_000_000 + 1  # without a common unit, distances are scaled instead
    scaled = solver.solve("cvrp", cvrp(points, demands, torch.tensor([1_000_001_000]), ["CEIL_2D"])).costs.item()
    assert scaled == pytest.approx(costs[0], rel=1e-2)


def test_smallest_and_degenerate_routes(solver):
    assert solver.solve("tsp", tsp(random_points(1, 3), ["EUCLIDEAN"])).actions.sort(dim=1).values.tolist() == [[1, 2]]
    same = torch.ones(1, 5, 2, dtype=torch.float64)
    for metric in ("EUCLIDEAN", "EUC_2D"):
        assert solver.solve("tsp", tsp(same, [metric])).costs.item() == 0
    demands = torch.tensor([[0, 1, 1]])
    assert solver.solve("cvrp", cvrp(random_points(1, 3), demands, torch.tensor([2]), ["EUCLIDEAN"])).costs > 0


def test_numbers_beyond_the_solvers_are_scaled_or_refused(solver):
    points = random_points(1, 5)
    large = solver.solve("tsp", tsp(points * 1e12, ["EUC_2D"]))
    assert large.costs.item() == pytest.approx(solver.solve("tsp", tsp(points, ["EUCLIDEAN"])).costs.item() * 1e12)
    with pytest.raises(SolverError, match="set/0: times that add up to .* too large for CP-SAT"):
        solver.solve("jssp", jssp(torch.full((1, 2, 2), 1 << 50), torch.tensor([[[0, 1], [1, 0]]])))


def test_jssp_is_solved_to_the_optimum():
    result = Solver(time_limit=20).solve("jssp", ft06())
    assert result.costs.tolist() == [55.0] and result.kinds == ["optimal (CP-SAT)"]
    assert result.actions.shape == (1, 36) and result.seconds[0] < 20


def test_too_little_time_for_a_proof_is_no_proof():
    generator = torch.Generator().manual_seed(0)
    times = torch.randint(1, 100, (1, 15, 15), generator=generator)
    result = Solver(time_limit=1, threads=1).solve(
        "jssp", jssp(times, torch.rand(1, 15, 15, generator=generator).argsort(dim=2))
    )
    assert result.kinds[0].startswith("CP-SAT 9.") and result.kinds[0].endswith(", 1 s")


def test_too_little_time_for_any_schedule_is_an_error():
    times = torch.ones(1, 60, 20, dtype=torch.int64)
    machines = torch.rand(1, 60, 20, generator=torch.Generator().manual_seed(0)).argsort(dim=2)
    with pytest.raises(SolverError, match="set/0: CP-SAT found no schedule within 0.001 s .*give it more time"):
        Solver(time_limit=0.001).solve("jssp", jssp(times, machines))
    found = Solver(time_limit=0.001).solve("jssp", jssp(times, machines), leave_out=True)
    assert found.costs.isnan().all() and found.kinds[0].startswith("CP-SAT found no schedule within 0.001 s")


@pytest.mark.parametrize("seed", range(20))
def test_operations_that_take_no_time_keep_their_place(seed):
    """Many ties, many zeros: the sequence of jobs gives a schedule no longer than the solver's."""
    generator = torch.Generator().manual_seed(seed)
    times = torch.randint(0, 3, (1, 4, 4), generator=generator)
    instance_set = jssp(times, torch.rand(1, 4, 4, generator=generator).argsort(dim=2))
    original = Original(*(field[0] for field in instance_set.originals))
    answer = solve_jssp(original, Options(5.0, seed, None))
    cost = instance_set.true_cost(torch.zeros(1, dtype=torch.int64), torch.from_numpy(answer.actions)[None])
    assert answer.kind == "optimal (CP-SAT)" and answer.lowest == cost.item() == answer.highest


# ---- workers, seeds, patience


@pytest.mark.slow
def test_workers_find_what_this_process_finds(tmp_path):
    instance_set = tsp(random_points(5, 12), ["EUCLIDEAN"] * 5)
    results, counts = [], []
    for workers in (0, 1):
        solver = Solver(20, workers, seed=3, patience=50, folder=tmp_path / str(workers))
        steps = []
        results.append(solver.solve("tsp", instance_set, steps.append))
        counts.append(sum(steps))
    assert torch.equal(results[0].actions, results[1].actions) and results[0].kinds == results[1].kinds
    assert counts == [5, 5]
    assert results[0].kinds[0].endswith(", 20 s or 50 iterations without improvement")
    assert (results[0].seconds < 5).all()


@pytest.mark.slow
def test_a_failing_worker_names_the_instance():
    times = torch.full((2, 2, 2), 1)
    times[1] = 1 << 50
    with pytest.raises(SolverError, match="set/1: times that add up"):
        Solver(1, workers=1).solve("jssp", jssp(times, torch.tensor([[[0, 1], [1, 0]]] * 2)))


@pytest.mark.parametrize(("threads", "workers", "each"), [(8, 0, 8), (8, 1, 8), (8, 3, 2), (8, 16, 1), (1, 0, 1)])
def test_threads_are_shared_among_the_workers(threads, workers, each):
    assert Solver(np.float32(0.5), workers, threads=threads).options == Options(0.5, 0, None, each)


def test_several_threads_find_the_optimum_and_are_named():
    original = Original(*(field[0] for field in ft06().originals))
    answer = solve_jssp(original, Options(20.0, 0, None, threads=4))
    assert answer.kind == "optimal (CP-SAT)" and answer.lowest == 55
    times = torch.randint(1, 100, (1, 15, 15), generator=torch.Generator().manual_seed(0))
    machines = torch.rand(1, 15, 15, generator=torch.Generator().manual_seed(0)).argsort(dim=2)
    result = Solver(time_limit=0.5, threads=2).solve("jssp", jssp(times, machines))
    assert result.kinds[0].endswith(", 0.5 s, 2 threads") and result.bounds < result.costs


# ---- references


def test_only_missing_references_are_filled(solver):
    instance_set = tsp(random_points(3, 8), ["EUCLIDEAN"] * 3)
    known = torch.tensor([math.nan, 1.5, math.nan], dtype=torch.float64)
    instance_set = instance_set._replace(references=known, kinds=["", "mine", ""])
    steps = []
    filled = with_references("tsp", instance_set, solver, steps.append)
    assert sum(steps) == 2
    every = solver.solve("tsp", instance_set)
    assert filled.references.tolist() == [every.costs[0].item(), 1.5, every.costs[2].item()]
    assert filled.kinds == [every.kinds[0], "mine", every.kinds[2]]
    assert math.isnan(known[0])
    assert with_references("tsp", filled, solver) is filled


# ---- what is refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answer: answer._replace(lowest=answer.lowest - 1, highest=answer.lowest - 1), "claims a cost of"),
        (lambda answer: answer._replace(lowest=answer.highest + 1e-3, highest=answer.highest + 2e-3), "claims a cost"),
        (lambda answer: answer._replace(actions=np.zeros_like(answer.actions)), "is no solution: row 0 does not visit"),
    ],
)
def test_wrong_answers_are_caught(monkeypatch, tmp_path, solver, change, message):
    real = registry.backend_of("tsp")
    wrong = real._replace(solve=lambda row, options: change(real.solve(row, options)))
    monkeypatch.setitem(registry.BACKENDS, "tsp", wrong)
    with pytest.raises(SolverError, match=f"set/0: .*PyVRP.*{message}"):
        solver.solve("tsp", tsp(random_points(1, 6), ["EUCLIDEAN"]))
    assert not list(tmp_path.glob("**/*.npz"))  # nothing is kept of it


@pytest.mark.parametrize(("problem", "title"), [("tsp", "PyVRP"), ("cvrp", "PyVRP"), ("jssp", "OR-Tools")])
def test_a_missing_package_is_named(monkeypatch, solver, problem, title):
    monkeypatch.setitem(sys.modules, registry.backend_of(problem).module, None)
    message = rf"problem {problem}'s solver needs {title}: pip install -c constraints.txt -e '.\[solvers\]'"
    with pytest.raises(ValueError, match=message):
        solver.solve(problem, ft06())


def test_solvers_can_be_imported_without_their_packages():
    code = "import sys\nfor name in ('pyvrp', 'ortools', 'ray'): sys.modules[name] = None\nimport problems.solvers"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"time_limit": 0}, "time_limit must be a number above 0, got 0"),
        ({"workers": -1}, "workers must be an integer of at least 0"),
        ({"seed": 2**31}, "seed must be an integer of at least 0 and at most 2147483647"),
        ({"patience": 0}, "patience must be an integer of at least 1"),
        ({"threads": 0}, "threads must be an integer of at least 1"),
        ({"time_limit": 10**400}, r"time_limit must be at most 9223372036854775807, got about 10\*\*400"),
        ({"time_limit": -(10**5000)}, r"time_limit must be a number above 0, got about -10\*\*5000"),
        ({"time_limit": np.float32("nan")}, "time_limit must be a number above 0"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Solver(**{"time_limit": 1.0, **values})


def test_questions_without_an_answer_are_refused(solver):
    with pytest.raises(ValueError, match="there is no solver for problem chess; see docs"):
        solver.solve("chess", ft06())
    with pytest.raises(ValueError, match="patience has no effect on jssp"):
        Solver(1, patience=5).solve("jssp", ft06())
    with pytest.raises(ValueError, match="no instances"):
        solver.solve("jssp", ft06(), indices=[])


@pytest.mark.parametrize(
    ("seconds", "workers", "whole"),
    [([4.0], 16, 4.0), ([4.0, 4.0, 4.0], 2, 8.0), ([1.0, 3.0, 1.0], 2, 3.0), ([2.0, 2.0], 1, 4.0)],
)
def test_the_time_of_a_solver_knows_no_idle_workers(seconds, workers, whole):
    assert wall_clock(seconds, workers) == whole
