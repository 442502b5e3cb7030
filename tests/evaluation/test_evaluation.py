"""Evaluation: what each method finds, also with several heuristics or own distances, and how it is written down."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import evaluate
import study
from gumbeldore.cli.evaluation import Task, full_chunks, without_idle_workers
from gumbeldore.cli.machine import Machine
from gumbeldore.evaluation import solved_sets as evaluation
from gumbeldore.evaluation.baseline import solve_baseline
from gumbeldore.evaluation.loading import LoadedPolicy, load_policy
from gumbeldore.evaluation.parts import Parts
from gumbeldore.evaluation.references import with_table
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import unsearched
from models.bq_tsp import BQ
from problems.cvrp import CVRP
from problems.formats.cvrplib import read_solution
from problems.formats.tsplib import read_tour
from problems.heuristics import Heuristic
from problems.tsp import TSP
from tests.helpers.commands import compose, done
from tests.helpers.evaluations import DATA, evaluated
from tests.helpers.instance_files import write_tsp
from tests.helpers.matrices import length, random_matrix, write_matrix
from tests.helpers.schedules import read_job_shop


def test_evaluation_reports_gaps_and_tours(policies, tmp_path):
    words = ["instances=kool/tsp20", "num_instances=6", "method=[greedy,gumbeldore]", "search.beam_width=4"]
    found = evaluated(policies / "tsp.pt", tmp_path, *words, "precision=float32")
    assert list(found.methods) == ["greedy", "gumbeldore"]
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {"checkpoint", "instances", "hardware", "command"} <= set(content)
    columns = ["method", "instance", "size", "cost", "reference", "gap", "kind", "solutions", "solution"]
    assert list(found.rows[0]) == columns and len(found.rows) == 2 * 6
    instance_set = TSP(20).load("kool/tsp20", 6)[0]
    for method, solutions in (("greedy", "1"), ("gumbeldore", "16")):
        rows = found.of(method)
        tours = torch.tensor([[int(node) for node in row["solution"].split()] for row in rows])
        assert (tours[:, 0] == 0).all()
        costs = instance_set.true_cost(torch.arange(6), tours[:, 1:])
        assert [float(row["cost"]) for row in rows] == pytest.approx(costs.tolist())
        assert [float(row["reference"]) for row in rows] == pytest.approx(instance_set.references.tolist())
        gaps = costs / instance_set.references - 1
        assert [float(row["gap"]) for row in rows] == pytest.approx(gaps.tolist())
        assert {row["kind"] for row in rows} == {"LKH"} and {row["solutions"] for row in rows} == {solutions}
        result = found.methods[method]
        assert result["mean_cost"] == pytest.approx(costs.mean().item()) and result["num_instances"] == 6
        assert result["mean_gap"] == pytest.approx(gaps.mean().item())
        assert result["reference"] == "LKH" and result["seconds"] > 0 and result["solutions"] == 6 * int(solutions)
        assert f"{result['mean_gap']:.3%}" in found.output


def test_an_evaluation_samples_with_its_seed(policies, tmp_path):
    words = ["instances=kool/tsp20", "num_instances=2", "method=sampling", "search.beam_width=4"]
    found = [evaluated(policies / "tsp.pt", tmp_path, *words, f"seed={seed}", out=f"{seed}").rows for seed in (0, 1)]
    assert found[0] != found[1]


def test_one_file_without_a_reference_has_no_gap(policies, tmp_path):
    file = write_tsp(tmp_path / "mine.tsp", [((37 * i) % 101, (61 * i) % 97) for i in range(9)])
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={file}", "method=wor", "search.num_rounds=3")
    assert found.methods["wor"]["mean_gap"] is None and found.methods["wor"]["reference"] is None
    (row,) = found.rows
    assert "no reference costs, so no gap" in found.output and row["instance"] == "mine"
    assert row["reference"] == row["gap"] == row["kind"] == ""
    assert float(row["cost"]).is_integer()  # EUC_2D rounds each edge


@pytest.mark.parametrize("room", [1, 1000])
def test_a_search_without_memory_for_its_time_says_so(room, policies, tmp_path, monkeypatch):
    """Its trie may grow from one round's to so many; small trees are exhausted before the thousandth."""
    monkeypatch.setattr("gumbeldore.parallel.pool.trie_budget", lambda device: room * tries[0])
    instance = TSP(5).generate(1, torch.Generator().manual_seed(0))
    limited = methods.Anytime(methods.WithoutReplacement(4, 1), 60.0)
    tries = [limited.trie_memory(unsearched(TSP(5), load_policy(policies / "tsp.pt").policy, instance))]
    np.savez(tmp_path / "five.npz", coords=instance.coords.numpy())
    words = [f"instances={tmp_path / 'five.npz'}", "method=wor", "search.beam_width=4", "search.num_rounds=1"]
    found = evaluated(policies / "tsp.pt", tmp_path, *words, "search.time_limit=60", "search.top_p_start=1")
    assert found.methods["wor"]["solutions"] == (4 if room == 1 else 24)
    assert ("wor: for want of memory 1 instances were searched for less" in found.output) == (room == 1)


def test_routes_are_written_and_counted(policies, tmp_path):
    words = ["method=[greedy,gumbeldore]", "search.beam_width=2", "search.num_rounds=2"]
    found = evaluated(policies / "cvrp.pt", tmp_path, f"instances={DATA}/cvrplib", "num_instances=2", *words)
    columns = ["method", "instance", "size", "cost", "reference", "gap", "kind", "solutions", "routes", "solution"]
    assert list(found.rows[0]) == columns and len(found.rows) == 2 * 2
    for row in found.rows:
        walk = list(map(int, row["solution"].split()))
        assert walk[0] == walk[-1] == 0 and walk.count(0) - 1 == float(row["routes"])
        assert float(row["gap"]) == pytest.approx(float(row["cost"]) / float(row["reference"]) - 1)
    for name, content in found.methods.items():
        rows = found.of(name)
        assert content["routes"] == pytest.approx(sum(float(row["routes"]) for row in rows) / 2)
        sizes = {"A-n32-k5": "31", "A-n80-k10": "79"}
        assert set(content["by_size"]) == set(sizes.values())
        for row in rows:
            part = content["by_size"][sizes[row["instance"]]]
            assert part["num_instances"] == 1 and part["mean_cost"] == float(row["cost"])
            assert part["mean_gap"] == pytest.approx(float(row["gap"]))
    assert "by size" in found.output and "routes" in found.output


def test_schedules_are_written_and_end_at_the_cost(policies, tmp_path):
    for name in ("ft06", "la01"):  # as many machines as jobs, and fewer
        shutil.copy(DATA / "jssp" / f"{name}.txt", tmp_path)
    words = [f"instances={tmp_path}", "method=[greedy,beam]", "search.beam_width=2"]
    found = evaluated(policies / "jssp.pt", tmp_path, *words)
    assert list(found.methods["greedy"]["by_size"]) == ["6x6", "10x5"]
    schedules = found.table("schedules.csv")
    assert list(schedules[0]) == ["method", "instance", "job", "operation", "machine", "start", "end"]
    assert len(schedules) == 2 * (36 + 50) and "schedules.csv" in found.output
    for row in found.rows:
        operations = [
            tuple(int(each[key]) for key in ("job", "operation", "machine", "start", "end"))
            for each in schedules
            if (each["method"], each["instance"]) == (row["method"], row["instance"])
        ]
        assert max(end for *_, end in operations) == float(row["cost"])
        times, machines = read_job_shop(row["instance"])
        assert {(j, o, m, end - start) for j, o, m, start, end in operations} == {
            (j, o, machines[j][o], times[j][o]) for j in range(len(times)) for o in range(len(times[0]))
        }


def test_reference_solutions_cost_what_the_references_say():
    for problem, folder in ((TSP(20), DATA), (CVRP(20, [30, 30]), DATA / "cvrplib")):
        for instance_set in problem.load(str(folder)):
            assert sorted(instance_set.solutions) == list(range(len(instance_set.names)))
            for i, actions in instance_set.solutions.items():
                assert instance_set.true_cost(torch.tensor([i]), actions[None]).item() == instance_set.references[i]
            (table,) = with_table([instance_set], {instance_set.names[0]: (1.0, "mine")}, "mine.csv")
            assert 0 not in table.solutions


# ---- heuristics


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
    for words in ([], ["checkpoint=jssp"]):
        out = f"out_dir=out{len(words)}"
        asked = ["problem.objective=weighted_tardiness", "method=heuristic", "workers=0", out]
        result = done(evaluate, "instances=late.json", *asked, *words, cwd=tmp_path)
        assert "objective: weighted_tardiness" in result.stdout and "no effect" not in result.stdout
        content = json.loads((tmp_path / out.removeprefix("out_dir=") / "results.json").read_text())
        assert content["objective"] == "weighted_tardiness"
        assert [method["mean_cost"] for method in content["methods"].values()] == [0.0]  # job 1 first
    makespans = done(evaluate, "instances=late.json", "method=heuristic", "workers=0", "out_dir=m", cwd=tmp_path)
    assert "due dates have no effect" in makespans.stdout and "objective: makespan" in makespans.stdout


# ---- distances of one's own

MATRIX = random_matrix(7, diagonal=1e8)


def test_tours_with_directions_are_evaluated_and_the_map_is_remarked_on(policies, tmp_path):
    file = write_matrix(tmp_path / "mine.atsp", MATRIX, kind="ATSP")
    words = ["method=[greedy,gumbeldore,heuristic]", "search.num_rounds=4", "search.beam_width=16"]
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={file}", *words)
    for row in found.rows:
        tour = list(map(int, row["solution"].split()))
        assert sorted(tour) == list(range(7)) and float(row["cost"]) == length(MATRIX, tour)
        assert read_tour(found.folder / "solutions" / row["method"].replace(": ", "_") / "mine.tour") == tour
    (content,) = json.loads((found.folder / "results.json").read_text())["remarks"]
    said = "the instances have distances of their own: costs are by these, but the policy sees a map"
    assert content.startswith(said)
    assert html.escape(content) in (found.folder / "report.html").read_text()
    assert content[:60] in " ".join(found.output.split())
    # 64 of 720 tours, the best by its true cost: a policy that knew nothing would find one of the best tenth.
    every = sorted(length(MATRIX, [0, *rest]) for rest in itertools.permutations(range(1, 7)))
    assert float(found.of("gumbeldore")[0]["cost"]) <= every[72]
    assert "Christofides" not in found.output


def test_arrays_are_studied_with_the_remark(policies, tmp_path):
    np.savez(tmp_path / "mine.npz", distances=np.stack([MATRIX, MATRIX.T]) / 3)
    words = [f"instances={tmp_path / 'mine.npz'}", "search.num_rounds=[1,2]", "repetitions=2", "workers=0"]
    words += [f"checkpoint={policies / 'tsp.pt'}", f"out_dir={tmp_path / 'out'}", "method=wor", "num_instances=2"]
    result = done(study, *words, cwd=tmp_path)
    assert "distances of their own" in result.stdout
    (remark,) = json.loads((tmp_path / "out" / "study.json").read_text())["remarks"]
    assert "on average (by" in remark


# ---- solutions as files for other programs


def test_routes_are_written_as_files_that_are_read_back(policies, tmp_path):
    """As the reference beside its file, a solution has the gap 0."""
    file = tmp_path / "mine" / "A-n32-k5.vrp"
    file.parent.mkdir()
    text = (DATA / "cvrplib" / "A-n32-k5.vrp").read_text()
    file.write_text(text.replace(" 2 96 44", " 2 96 45"))  # of which nothing is published
    found = evaluated(policies / "cvrp.pt", tmp_path, f"instances={file}")
    (tmp_path / file.name).write_text(file.read_text())
    written = found.folder / "solutions" / "greedy" / "A-n32-k5.sol"
    routes, cost = read_solution(written, 31)
    assert cost == float(found.rows[0]["cost"]) and len(routes) == float(found.rows[0]["routes"])
    walk = [0, *(node for route in routes for node in (*route, 0))]
    assert walk == list(map(int, found.rows[0]["solution"].split()))
    (tmp_path / "A-n32-k5.sol").write_text(written.read_text())
    again = evaluated(policies / "cvrp.pt", tmp_path, f"instances={tmp_path / file.name}", out="again")
    assert again.rows[0]["kind"] == "solution file (.sol)" and float(again.rows[0]["gap"]) == 0


def evaluated_as(policies, tmp_path, **names):
    """An evaluation of copies of one instance, by the names of their files."""
    text = (DATA / "ulysses16.tsp").read_text()
    for file, name in names.items():
        (tmp_path / f"{file}.tsp").write_text(text.replace("NAME: ulysses16.tsp", f"NAME: {name}"))
    return evaluated(policies / "tsp.pt", tmp_path, f"instances={tmp_path}")


def test_long_names_are_cut_in_file_names(policies, tmp_path):
    found = evaluated_as(policies, tmp_path, a="ü" * 400 + "a", b="ü" * 400 + "b")
    written = [path.name for path in tmp_path.glob("**/*.tour")]
    assert len(written) == 2 and all(re.fullmatch("ü{50}-[0-9a-f]{8}.tour", name) for name in written)
    assert {row["instance"] for row in found.rows} == {"ü" * 400 + "a", "ü" * 400 + "b"}


def test_sets_without_files_get_none(policies, tmp_path):
    found = evaluated(policies / "tsp.pt", tmp_path, "instances=kool/tsp20", "num_instances=2")
    assert not (found.folder / "solutions").exists() and "solutions/" not in found.output


def test_names_of_instances_do_not_lead_out_of_the_folder(policies, tmp_path):
    found = evaluated_as(policies, tmp_path, a="../../../x y/z", b="x_y_z-2", c="x y/z")
    names = sorted(path.name for path in tmp_path.glob("**/*.tour"))
    assert names == ["x_y_z-2.tour", "x_y_z-3.tour", "x_y_z.tour"]
    assert {path.parent for path in tmp_path.glob("**/*.tour")} == {found.folder / "solutions" / "greedy"}


# ---- workers


def test_workers_are_for_more_than_is_searched_together(monkeypatch):
    problem, policy = TSP(7), BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0)
    (instance_set,), search = problem.validation(40, seed=0), methods.WithoutReplacement(4, 2)
    loaded = LoadedPolicy(problem, policy, {}, Path("policy.pt"))
    one = search.trie_memory(unsearched(problem, policy, instance_set.instances))
    for rows, budget, chunks in ((160, 40 * one, 1), (80, 40 * one, 2), (160, 10 * one, 4), (160, 80 * one, 1)):
        monkeypatch.setattr("gumbeldore.cli.evaluation.trie_budget", lambda device, budget=budget: budget)
        machine = Machine(torch.device("cpu"), "float32", False, 2, 1, rows)
        assert full_chunks(loaded, [instance_set], search, machine) == chunks
    monkeypatch.undo()
    task = Task(loaded, slice(0, 1), {"wor": search})
    for rows, workers in ((160, 0), (80, 2)):  # one chunk and two
        machine = Machine(torch.device("cpu"), "float32", False, 2, 1, rows)
        assert without_idle_workers(machine, [task], [instance_set]).workers == workers


def test_few_instances_are_searched_without_ray(policies, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("gumbeldore.parallel.ray_cluster.start_ray", started.append)
    found = evaluated(policies / "tsp.pt", tmp_path, "instances=kool/tsp20", "num_instances=2", "workers=auto")
    assert started == [] and found.rows


def test_workers_are_counted_on_the_cluster_that_was_joined(policies, tmp_path, monkeypatch):
    """`workers=auto` is as many as the cluster has room for: so the cluster is joined before."""
    order = []
    monkeypatch.setattr("gumbeldore.parallel.ray_cluster.join", lambda address, modules: order.append("join"))
    monkeypatch.setattr("gumbeldore.parallel.ray_cluster.room", lambda threads: order.append("room") or 1)
    words = [f"checkpoint={policies / 'tsp.pt'}", "instances=kool/tsp20", "num_instances=2", "solver.workers=0"]
    evaluate.evaluate(compose("evaluate", *words, "ray.address=auto", f"out_dir={tmp_path / 'out'}"))
    assert order == ["join", "room"]
