"""Evaluation: what each method finds, and how it is written down."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from gumbeldore.evaluation.loading import load_policy
from gumbeldore.evaluation.references import with_table
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import unsearched
from problems.cvrp import CVRP
from problems.tsp import TSP
from tests.helpers.evaluations import DATA, evaluated
from tests.helpers.instance_files import write_tsp
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
    first, other = (
        evaluated(policies / "tsp.pt", tmp_path, *words, f"seed={seed}", out=f"seed{seed}").rows for seed in (0, 1)
    )
    assert first != other


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
