"""Of several heuristics the best one is shown."""

from __future__ import annotations

import json

import pytest
import torch

import evaluate
from gumbeldore.evaluation import solved_sets as evaluation
from gumbeldore.evaluation.baseline import solve_baseline
from gumbeldore.evaluation.parts import Parts
from problems.cvrp import CVRP
from problems.heuristics import Heuristic
from problems.tsp import TSP
from tests.helpers.commands import done
from tests.helpers.evaluations import DATA, evaluated


@pytest.mark.parametrize("problem", [TSP(20), CVRP(20, [30, 30])], ids=["tsp", "cvrp"])
def test_the_best_routing_heuristic_is_shown(policies, tmp_path, problem):
    pytest.importorskip("ortools")
    files = {"tsp": DATA, "cvrp": DATA / "cvrplib"}[problem.name]
    words = [f"instances={files}", "method=[greedy,heuristic]"]
    found = evaluated(policies / f"{problem.name}.pt", tmp_path, *words)
    gaps = {}
    for instance_set in problem.load(str(files)):
        for name, (actions, _) in Heuristic().solve(problem.name, instance_set).items():
            costs = instance_set.true_cost(torch.arange(len(actions)), actions)
            gaps.setdefault(f"heuristic: {name}", []).extend((costs / instance_set.references - 1).tolist())
    best = min(gaps, key=lambda name: sum(gaps[name]))
    assert list(found.methods) == ["greedy", best] and best in found.output
    outcome = found.methods[best]
    assert outcome["mean_gap"] == pytest.approx(sum(gaps[best]) / len(gaps[best]))
    assert 0 < outcome["mean_gap"] < found.methods["greedy"]["mean_gap"] and outcome["seconds"] > 0


def test_the_time_of_several_heuristics_is_that_of_trying_them_all():
    (instance_set,) = TSP(5).validation(2, seed=0)
    tours = torch.arange(1, 5).expand(2, 4)

    class Two:
        def check(self, problem):
            pass

        def solve(self, problem, instance_set, progress):
            return {"one": (tours, 2.0), "other": (tours.flip(1), 3.0)}

    parts = Parts()
    solve_baseline(Two(), TSP(5), instance_set, lambda done: None, parts)
    ((name, (solved,)),) = evaluation.results_of("heuristic", [parts], [instance_set]).items()
    assert name.startswith("heuristic: ") and solved.seconds == 5.0


def test_rules_minimise_the_objective_that_is_asked_for(tmp_path):
    """Without a checkpoint, and with a policy for another objective; the output names the objective."""
    jobs = [{"due": due, "operations": [{"machine": 0, "time": 4}, {"machine": 1, "time": 5}]} for due in (30, 9)]
    (tmp_path / "late.json").write_text(json.dumps({"machines": 2, "jobs": jobs}))
    for words in ([], ["checkpoint=jssp6x6"]):
        out = f"out_dir=out{len(words)}"
        asked = ["problem.objective=weighted_tardiness", "method=heuristic", "workers=0", out]
        result = done(evaluate, "instances=late.json", *asked, *words, cwd=tmp_path)
        assert "objective: weighted_tardiness" in result.stdout and "no effect" not in result.stdout
        content = json.loads((tmp_path / out.removeprefix("out_dir=") / "results.json").read_text())
        assert content["objective"] == "weighted_tardiness"
        assert [method["mean_cost"] for method in content["methods"].values()] == [0.0]  # job 1 first
    makespans = done(evaluate, "instances=late.json", "method=heuristic", "workers=0", "out_dir=m", cwd=tmp_path)
    assert "due dates have no effect" in makespans.stdout and "objective: makespan" in makespans.stdout
