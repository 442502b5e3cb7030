"""Solvers that start from a solution: it reaches them, they make nothing worse, its search is part of their time."""

from __future__ import annotations

import math

import pytest
import torch

from gumbeldore.evaluation.starts import Start
from problems.cvrp import CVRP
from problems.jssp.instances import Original
from problems.solvers import Solver, SolverError
from problems.solvers import backends as registry
from problems.solvers.answer import Options
from problems.solvers.cache import key_of
from problems.solvers.pool import row_of
from problems.solvers.scheduling import solve_jssp
from problems.tsp import TSP
from tests.helpers.commands import ROOT
from tests.helpers.unsolved import cvrp, jssp, random_points, tsp

pytest.importorskip("pyvrp")
pytest.importorskip("ortools")

TINY = 1e-3  # seconds
DATA = ROOT / "tests" / "data"
FILES = {  # with their optima beside them
    "tsp": lambda: TSP(100).load(str(DATA / "kroA100.tsp")),
    "cvrp": lambda: CVRP(5, [9, 9]).load(str(DATA / "cvrplib" / "X-n106-k14.vrp")),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))


class Given:
    """Starts that are known."""

    def __init__(self, *actions, seconds=0.0, decisive="given"):
        self.starts, self.text, self.asked = [Start(each, seconds) for each in actions], decisive, []

    def decisive(self, index):
        return self.text

    def find(self, indices):
        self.asked += indices
        yield from ((i, self.starts[i]) for i in indices)


@pytest.fixture
def asked(monkeypatch):
    """What the backends are asked, by the name of the problem."""
    options = []

    def asking(solve):
        return lambda row, wanted: options.append(wanted) or solve(row, wanted)

    for name, real in list(registry.BACKENDS.items()):
        monkeypatch.setitem(registry.BACKENDS, name, real._replace(solve=asking(real.solve)))
    return options


def optimal(problem):
    """An instance and its optimum, which the solver does not find in a millisecond."""
    if problem in FILES:
        (benchmark,) = FILES[problem]()
        return benchmark, benchmark.solutions[0]
    machines = (torch.arange(20)[:, None] + torch.arange(20)) % 20
    return jssp(torch.ones(1, 20, 20, dtype=torch.int64), machines[None]), torch.arange(20).repeat(20)


def poor(problem):
    """A small instance with a poor solution."""
    if problem == "tsp":
        return tsp(random_points(1, 30), ["EUCLIDEAN"]), torch.arange(1, 30)
    if problem == "cvrp":  # a route for each customer
        demands = torch.ones(1, 30, dtype=torch.int64).index_fill(1, torch.tensor([0]), 0)
        return cvrp(random_points(1, 30), demands, torch.tensor([9]), ["EUCLIDEAN"]), torch.arange(29) + 29
    machines = torch.rand(1, 15, 15, generator=torch.Generator().manual_seed(0)).argsort(dim=2)
    return jssp(torch.full((1, 15, 15), 7), machines), torch.arange(15).repeat_interleave(15)


def cost(benchmark, actions):
    return benchmark.true_cost(torch.zeros(1, dtype=torch.int64), actions[None]).item()


# ---- the hand-over


@pytest.mark.parametrize("problem", ["tsp", "cvrp", "jssp"])
def test_an_optimal_start_is_the_answer_in_no_time(problem):
    benchmark, actions = optimal(problem)
    result = Solver(TINY).solve(problem, benchmark, starts=Given(actions))
    assert result.costs.item() == pytest.approx(cost(benchmark, actions), abs=1e-9)
    try:
        alone = Solver(TINY).solve(problem, benchmark).costs.item()
    except SolverError:
        alone = math.inf
    assert alone > result.costs.item() + 1e-3  # so it was the start that made it optimal


@pytest.mark.parametrize("limit", [TINY, 0.02, 0.1])
@pytest.mark.parametrize("problem", ["tsp", "cvrp", "jssp"])
def test_the_answer_is_not_worse_than_the_start(problem, limit):
    benchmark, actions = poor(problem)
    result = Solver(limit).solve(problem, benchmark, starts=Given(actions))
    assert result.costs.item() <= cost(benchmark, actions) + 1e-9


def test_a_poor_start_is_improved():
    for problem in ("tsp", "cvrp", "jssp"):
        benchmark, actions = poor(problem)
        assert Solver(1).solve(problem, benchmark, starts=Given(actions)).costs.item() < cost(benchmark, actions)


def test_the_first_schedule_that_cp_sat_finds_is_its_hint(monkeypatch):
    from ortools.sat.python import cp_model

    solve, found = cp_model.CpSolver.solve, []

    def first_alone(solver, model):
        solver.parameters.stop_after_first_solution = True
        status = solve(solver, model)
        found.append((status, solver.objective_value))
        return status

    monkeypatch.setattr(cp_model.CpSolver, "solve", first_alone)
    benchmark, actions = poor("jssp")
    row = Original(*(field[0] for field in benchmark.originals))
    solve_jssp(row, Options(60.0, 0, None, actions.numpy()))
    solve_jssp(row, Options(60.0, 0, None))
    (status, hinted), (_, alone) = found
    assert status == cp_model.FEASIBLE and hinted == cost(benchmark, actions) > alone


@pytest.mark.slow
def test_workers_take_starts_too(tmp_path):
    benchmark = tsp(random_points(3, 12), ["EUCLIDEAN"] * 3)
    starts = [torch.arange(1, 12), torch.arange(11, 0, -1), torch.randperm(11, generator=torch.Generator()) + 1]
    results = [
        Solver(20, workers, patience=20, folder=tmp_path / str(workers)).solve("tsp", benchmark, starts=Given(*starts))
        for workers in (0, 1)
    ]
    assert torch.equal(results[0].actions, results[1].actions)


# ---- time


def test_the_search_is_part_of_the_time(asked):
    benchmark, actions = poor("tsp")
    result = Solver(0.5).solve("tsp", benchmark, starts=Given(actions, seconds=0.3))
    assert [options.time_limit for options in asked] == [pytest.approx(0.2, abs=2e-3)]
    assert 0.5 <= result.seconds.item() < 5
    assert result.kinds[0].startswith("PyVRP") and result.kinds[0].endswith("0.2 s after 0.3 s of search")


def test_a_search_that_leaves_no_time_is_an_error_before_anything_is_solved(asked):
    benchmark = tsp(random_points(2, 9), ["EUCLIDEAN"] * 2)
    given = Given(torch.arange(1, 9), torch.arange(1, 9))
    given.starts[1] = given.starts[1]._replace(seconds=0.1234)
    message = "set/1: the search for a start took 0.123 s, so solver.time_limit=0.1 leaves the solver nothing; give it"
    with pytest.raises(SolverError, match=message):
        Solver(0.1).solve("tsp", benchmark, starts=given)
    assert not asked


# ---- what is kept


def test_a_kept_answer_costs_no_search(asked):
    benchmark, actions = poor("tsp")
    given = Given(actions, seconds=0.05)
    first = Solver(0.1).solve("tsp", benchmark, starts=given)
    again = Solver(0.1).solve("tsp", benchmark, starts=given)
    assert given.asked == [0] and len(asked) == 1
    assert torch.equal(again.actions, first.actions) and again.seconds.item() == first.seconds.item() > 0.1
    Solver(0.1).solve("tsp", benchmark)
    other = Given(actions, decisive="another policy")
    Solver(0.1).solve("tsp", benchmark, starts=other)
    assert other.asked == [0] and len(asked) == 3


def test_names_of_answers_tell_starts_apart_and_are_as_they_were_without_one():
    benchmark, actions = poor("tsp")
    row, backend, options = row_of(benchmark.originals, 0), registry.BACKENDS["tsp"], Options(1.0, 0, None)
    keys = {key_of("tsp", row, backend, options, start) for start in (None, "None", "a", "b")}
    assert len(keys) == 4
    # The start itself and the time that is left are in no name.
    assert key_of("tsp", row, backend, options._replace(start=actions.numpy()), "a") in keys
