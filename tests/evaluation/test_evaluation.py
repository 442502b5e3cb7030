"""Evaluation: what each method finds, how it is written down, and what is refused."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import evaluate
from gumbeldore.benchmark import Benchmark
from gumbeldore.cli.evaluation import Machine, Task, full_chunks, without_idle_workers
from gumbeldore.evaluation import benchmarks as evaluation
from gumbeldore.evaluation import results
from gumbeldore.evaluation.baseline import solve_baseline
from gumbeldore.evaluation.benchmarks import BenchmarkResult
from gumbeldore.evaluation.loading import LoadedPolicy, load_policy
from gumbeldore.evaluation.parts import SEARCH, Parts, side_by_side
from gumbeldore.evaluation.references import contradicted, with_table
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime import checkpoint
from gumbeldore.sampler import methods
from gumbeldore.sampler.rounds import trie_memory
from gumbeldore.sampler.search import search
from models.bq_tsp import BQ
from problems.cvrp import CVRP
from problems.formats.cvrplib import read_solution
from problems.formats.tsplib import read_tour, read_tsplib, tour_lengths
from problems.heuristics import Heuristic
from problems.heuristics.dispatching import RULES
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import compose, typed
from tests.helpers.evaluations import DATA, evaluated, untrained
from tests.helpers.instance_files import write_vrp
from tests.helpers.schedules import makespan, sequence_of


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("policies"))


def test_evaluation_reports_gaps_and_tours(policies, tmp_path):
    words = ["instances=kool/tsp20", "num_instances=6", "method=[greedy,gumbeldore]", "search.beam_width=4"]
    found = evaluated(policies / "tsp.pt", tmp_path, *words, "precision=float32")
    assert list(found.methods) == ["greedy", "gumbeldore"]
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert {"checkpoint", "instances", "hardware", "command"} <= set(content)
    columns = ["method", "instance", "size", "cost", "reference", "gap", "kind", "solutions", "solution"]
    assert list(found.rows[0]) == columns and len(found.rows) == 2 * 6
    benchmark = TSP(20).load("kool/tsp20", 6)[0]
    for method, solutions in (("greedy", "1"), ("gumbeldore", "16")):
        rows = found.of(method)
        tours = torch.tensor([[int(node) for node in row["solution"].split()] for row in rows])
        assert (tours[:, 0] == 0).all()
        costs = benchmark.true_cost(torch.arange(6), tours[:, 1:])
        assert [float(row["cost"]) for row in rows] == pytest.approx(costs.tolist())
        assert [float(row["reference"]) for row in rows] == pytest.approx(benchmark.references.tolist())
        gaps = costs / benchmark.references - 1
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


def test_no_gap_is_a_negative_zero():
    assert results.percentage(-1e-9, 3) == "0.000%" and results.percentage(0.0, 1) == "0.0%"
    assert results.percentage(-0.0123) == "-1.23%" and results.percentage(-5.1e-6, 3) == "-0.001%"


def test_one_file_without_a_reference_has_no_gap(policies, tmp_path):
    file = tmp_path / "mine.tsp"
    nodes = "\n".join(f"{i + 1} {(37 * i) % 101} {(61 * i) % 97}" for i in range(9))
    file.write_text(
        f"NAME: mine\nTYPE: TSP\nDIMENSION: 9\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n{nodes}\nEOF\n"
    )
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={file}", "method=wor", "search.num_rounds=3")
    assert found.methods["wor"]["mean_gap"] is None and found.methods["wor"]["reference"] is None
    (row,) = found.rows
    assert "no reference costs, so no gap" in found.output and row["instance"] == "mine"
    assert row["reference"] == row["gap"] == row["kind"] == ""
    assert float(row["cost"]).is_integer()  # EUC_2D rounds each edge


def test_a_folder_of_mixed_sizes(policies, tmp_path):
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={DATA}")
    names = [row["instance"] for row in found.rows]
    assert len(names) >= 3 and {"berlin52", "eil51", "kroA100"} <= set(names)
    assert found.methods["greedy"]["num_instances"] == len(names)


@pytest.mark.slow
def test_more_time_finds_more(policies, tmp_path):
    words = ["instances=kool/tsp20", "num_instances=2", "method=wor", "search.beam_width=4", "search.num_rounds=1"]
    found = evaluated(policies / "tsp.pt", tmp_path, *words, "search.time_limit=2")
    assert found.methods["wor"]["solutions"] > 2 * 4


@pytest.mark.parametrize("room", [1, 1000])
def test_a_search_without_memory_for_its_time_says_so(room, policies, tmp_path, monkeypatch):
    """Its trie may grow from one round's to so many; small trees are exhausted before the thousandth."""
    monkeypatch.setattr("gumbeldore.parallel.pool.trie_budget", lambda device: room * tries[0])
    instance = TSP(5).generate(1, torch.Generator().manual_seed(0))
    tries = [trie_memory(TSP(5), load_policy(policies / "tsp.pt").policy, instance, methods.wor(4, 1, time_limit=60.0))]
    np.savez(tmp_path / "five.npz", coords=instance.coords.numpy())
    words = [f"instances={tmp_path / 'five.npz'}", "method=wor", "search.beam_width=4", "search.num_rounds=1"]
    found = evaluated(policies / "tsp.pt", tmp_path, *words, "search.time_limit=60", "search.top_p_start=1")
    assert found.methods["wor"]["solutions"] == (4 if room == 1 else 24)
    assert ("wor: for want of memory 1 instances were searched for less" in found.output) == (room == 1)


def test_workers_are_for_more_than_is_searched_together():
    problem, policy = TSP(7), BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0)
    (benchmark,), search = problem.validation(40, seed=0), methods.wor(4, 2)
    one = trie_memory(problem, policy, benchmark.instances, search)
    for rows, budget, chunks in ((160, 40 * one, 1), (80, 40 * one, 2), (160, 10 * one, 4), (160, 80 * one, 1)):
        assert full_chunks(problem, policy, [benchmark], search, rows, budget) == chunks
    task = Task(LoadedPolicy(problem, policy, {}, Path("policy.pt")), slice(0, 1), {"wor": search}, None)
    for rows, workers in ((160, 0), (80, 2)):  # one chunk and two
        machine = Machine(torch.device("cpu"), "float32", False, 2, rows)
        assert without_idle_workers(machine, [task], [benchmark]).workers == workers


def test_few_instances_are_searched_without_ray(policies, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("gumbeldore.parallel.ray_cluster.start_ray", started.append)
    found = evaluated(policies / "tsp.pt", tmp_path, "instances=kool/tsp20", "num_instances=2", "workers=auto")
    assert started == [] and found.rows


@pytest.mark.parametrize(
    ("problem", "words", "message"),
    [
        ("tsp", ["instances=kool/tsp21"], "unknown source 'kool/tsp21'"),
        ("tsp", ["instances=kool/tsp20", "search.beam_width=4"], "search.beam_width has no effect on greedy"),
        ("tsp", ["instances=kool/tsp20", "num_instances=20000"], "can be taken, not 20000; num_instances=null takes"),
        ("tsp", ["instances=kool/tsp20", "method=solver", "solver.workers=-1"], "solver.workers must be 'auto' or an"),
        ("tsp", ["instances=kool/tsp20", "workers=0", "ray.address=auto"], "ray.address=auto has no effect with"),
        ("tsp", ["instances=kool/tsp20", "method=fastest"], "fastest"),
        (
            "tsp",
            ["instances=kool/tsp20", "compile=true", "device=cpu"],
            "error: compile=true is for a GPU, device=cpu is a CPU: it would search more slowly\n",
        ),
        ("tsp", ["instances=kool/tsp20", "compile=1"], "compile must be true or false, got 1"),
        ("jssp", [f"instances={DATA}/jssp", "problem.nearest=5"], "error: problem.nearest: jssp has no nearest\n"),
        ("cvrp", [f"instances={DATA}/cvrplib", "problem.nearest=0"], "nearest must be at least 1, all or null, got 0"),
        ("cvrp", [f"instances={DATA}/cvrplib", "problem.nearest=x"], "nearest must be at least 1, all or null, got x"),
        (
            "cvrp",
            [f"instances={DATA}/cvrplib", "problem.capacity=9"],
            "no key problem.capacity; problem has distances, ",
        ),
        ("jssp", [f"instances={DATA}/jssp", "problem.distances=exact"], "error: problem.distances: jssp has no distan"),
        ("tsp", [f"instances={DATA}", "problem.distances=file"], "distances must be one of rounded, exact or null, go"),
        ("tsp", ["instances=kool/tsp20", "problem.distances=rounded"], "kool/tsp20 has exact distances"),
        ("tsp", [f"instances={DATA}/cvrplib/A-n32-k5.vrp"], "got 'CVRP' (the policy of "),
        ("cvrp", [f"instances={DATA}/jssp"], "*.vrp (the policy of "),
        ("tsp", [f"instances={DATA}/README.md"], "README.md: .md is no format of instances, "),
        ("cvrp", [f"instances={DATA}/cvrplib", "nearest=5"], "error: nearest is called problem.nearest now"),
        ("cvrp", ["instances=kool/tsp20"], "unknown source 'kool/tsp20'"),
        ("cvrp", ["instances=kool/tsp20"], "cvrp.pt is for cvrp)"),
        ("jssp", [f"instances={DATA}/berlin52.tsp"], "jssp.pt is for jssp)"),
        ("tsp", ["instances=kool/tsp20", "method=[]"], "method=[]: there must be one method at least"),
        (
            "tsp",
            ["instances=kool/tsp20", f"out_dir={DATA}/berlin52.tsp"],
            "berlin52.tsp is not a folder; choose another",
        ),
    ],
)
def test_wrong_evaluations_are_refused(policies, tmp_path, problem, words, message):
    result = typed(evaluate, f"checkpoint={policies / problem}.pt", *words, cwd=tmp_path)
    assert result.returncode != 0 and message in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("search", ["rules", "savings", "[greedy,rules]", "[savings,greedy]"])
def test_removed_methods_name_the_one_in_their_place(policies, tmp_path, search):
    removed = "rules" if "rules" in search else "savings"
    result = typed(evaluate, f"checkpoint={policies}/tsp.pt", "instances=kool/tsp20", f"method={search}", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == f"error: method={removed} has been removed; method=heuristic takes its place\n"


def test_heuristics_without_ortools_are_refused_before_anything_is_solved(policies, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.constraint_solver.pywrapcp", None)
    words = [f"checkpoint={policies}/tsp.pt", "instances=kool/tsp20", "method=[greedy,heuristic]", "workers=0"]
    result = typed(evaluate, *words, cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "method=heuristic needs OR-Tools for problem tsp: pip install" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_cannot_name_a_function_to_call(policies, tmp_path):
    content = checkpoint.load(policies / "tsp.pt")
    content["config"]["model"] = {"_target_": "os.mkdir", "path": str(tmp_path / "trapped")}
    checkpoint.save(tmp_path / "evil.pt", content)
    result = typed(evaluate, f"checkpoint={tmp_path / 'evil.pt'}", "instances=kool/tsp20", cwd=tmp_path)
    assert result.returncode == 2 and "model._target_=os.mkdir is not a class" in result.stderr
    assert not (tmp_path / "trapped").exists()


# ---- the CVRP


def sections(path: Path) -> tuple[list[tuple[float, float]], list[int], int]:
    """Nodes, demands and capacity of a CVRPLIB file."""
    text = path.read_text()
    nodes = re.search(r"NODE_COORD_SECTION\s+(.*?)DEMAND_SECTION", text, re.DOTALL).group(1).split()
    demands = re.search(r"DEMAND_SECTION\s+(.*?)DEPOT_SECTION", text, re.DOTALL).group(1).split()
    coords = list(zip(map(float, nodes[1::3]), map(float, nodes[2::3]), strict=True))
    return coords, list(map(int, demands[1::2])), int(re.search(r"CAPACITY\s*:\s*(\d+)", text).group(1))


def test_routes_are_legal_and_cost_what_is_written(policies, tmp_path):
    words = ["method=[greedy,gumbeldore]", "search.beam_width=2", "search.num_rounds=2"]
    found = evaluated(policies / "cvrp.pt", tmp_path, f"instances={DATA}/cvrplib", "num_instances=2", *words)
    columns = ["method", "instance", "size", "cost", "reference", "gap", "kind", "solutions", "routes", "solution"]
    assert list(found.rows[0]) == columns and len(found.rows) == 2 * 2
    for row in found.rows:
        coords, demands, capacity = sections(DATA / "cvrplib" / f"{row['instance']}.vrp")
        walk = list(map(int, row["solution"].split()))
        assert walk[0] == walk[-1] == 0
        assert sorted(node for node in walk if node) == list(range(1, len(coords)))
        routes = [list(map(int, part.split())) for part in re.split(r"\b0\b", row["solution"]) if part.strip()]
        assert len(routes) == walk.count(0) - 1 == float(row["routes"])
        assert all(sum(demands[node] for node in route) <= capacity for route in routes)
        cost = sum(math.floor(math.dist(coords[a], coords[b]) + 0.5) for a, b in zip(walk, walk[1:], strict=False))
        assert float(row["cost"]) == cost and float(row["gap"]) == pytest.approx(cost / float(row["reference"]) - 1)
        stated = (DATA / "cvrplib" / f"{row['instance']}.sol").read_text()
        assert float(row["reference"]) == float(re.search(r"Cost (\d+)", stated).group(1))
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


def test_nearest_restricts_where_the_vehicle_goes(policies, tmp_path):
    file = DATA / "cvrplib" / "A-n32-k5.vrp"
    coords, *_ = sections(file)

    def ranks(out, *words):
        """How many remaining customers are nearer than the next one, at every step."""
        (row,) = evaluated(policies / "cvrp.pt", tmp_path, f"instances={file}", *words, out=out).rows
        order = [node for node in map(int, row["solution"].split()) if node]
        return [
            sum(math.dist(coords[a], coords[c]) < math.dist(coords[a], coords[b]) - 1e-6 for c in order[i:])
            for i, (a, b) in enumerate(zip([0, *order], order, strict=False))
        ]

    assert max(ranks("all")) >= 5 and 1 <= max(ranks("five", "problem.nearest=5")) < 5
    assert max(ranks("one", "problem.nearest=1")) == 0


# ---- the JSSP


def job_shop(name: str) -> tuple[list[list[int]], list[list[int]]]:
    """Times and machines, from 0, of a file in the standard format."""
    lines = [line.split() for line in (DATA / "jssp" / f"{name}.txt").read_text().splitlines()]
    numbers = [list(map(int, words)) for words in lines if words and all(word.isdigit() for word in words)][1:]
    return [row[1::2] for row in numbers], [row[::2] for row in numbers]


def test_schedules_are_feasible_and_end_at_the_cost(policies, tmp_path):
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
        for one in operations:
            assert one[3] >= 0
            for two in operations:
                if one[0] == two[0] and one[1] < two[1]:
                    assert one[4] <= two[3]
                if one[2] == two[2] and one[0] < two[0]:
                    assert one[4] <= two[3] or two[4] <= one[3]
        times, machines = job_shop(row["instance"])
        assert {(j, o, m, end - start) for j, o, m, start, end in operations} == {
            (j, o, machines[j][o], times[j][o]) for j in range(len(times)) for o in range(len(times[0]))
        }


def test_the_best_of_the_rules_is_shown(policies, tmp_path):
    for name in ("ft06", "la01"):  # whose best rules differ
        file = DATA / "jssp" / f"{name}.txt"
        found = evaluated(policies / "jssp.pt", tmp_path, f"instances={file}", "method=[greedy,heuristic]", out=name)
        shop = job_shop(name)
        costs = {f"heuristic: {name}": makespan(*shop, sequence_of(*rule, *shop)) for name, rule in RULES.items()}
        greedy, row = found.rows
        assert greedy["method"] == "greedy" and row["method"] in costs and row["method"] in found.output
        assert float(row["cost"]) == min(costs.values()) == costs[row["method"]] < max(costs.values())


def test_one_rule_is_the_best_of_all_sizes_by_its_gap(policies, tmp_path):
    found = evaluated(policies / "jssp.pt", tmp_path, f"instances={DATA}/jssp", "method=heuristic")
    (method,) = found.methods
    gaps = {name: [] for name in RULES}
    for benchmark in JSSP([[6, 6]], [[6, 6]]).load(str(DATA / "jssp")):
        shop = [values[0].tolist() for values in benchmark.originals[:2]]
        for name, rule in RULES.items():
            gaps[name].append(makespan(*shop, sequence_of(*rule, *shop)) / benchmark.references.item() - 1)
    best = min(RULES, key=lambda name: sum(gaps[name]))
    assert method == f"heuristic: {best}"
    assert found.methods[method]["mean_gap"] == pytest.approx(sum(gaps[best]) / 4)


@pytest.mark.parametrize("problem", [TSP(20), CVRP(20, [30, 30])], ids=["tsp", "cvrp"])
def test_the_best_routing_heuristic_is_shown(policies, tmp_path, problem):
    pytest.importorskip("ortools")
    files = {"tsp": DATA, "cvrp": DATA / "cvrplib"}[problem.name]
    words = [f"instances={files}", "method=[greedy,heuristic]"]
    found = evaluated(policies / f"{problem.name}.pt", tmp_path, *words)
    gaps = {}
    for benchmark in problem.load(str(files)):
        for name, (actions, _) in Heuristic().solve(problem.name, benchmark).items():
            costs = benchmark.true_cost(torch.arange(len(actions)), actions)
            gaps.setdefault(f"heuristic: {name}", []).extend((costs / benchmark.references - 1).tolist())
    best = min(gaps, key=lambda name: sum(gaps[name]))
    assert list(found.methods) == ["greedy", best] and best in found.output
    outcome = found.methods[best]
    assert outcome["mean_gap"] == pytest.approx(sum(gaps[best]) / len(gaps[best]))
    assert 0 < outcome["mean_gap"] < found.methods["greedy"]["mean_gap"] and outcome["seconds"] > 0


def test_the_time_of_several_heuristics_is_that_of_trying_them_all():
    (benchmark,) = TSP(5).validation(2, seed=0)
    tours = torch.arange(1, 5).expand(2, 4)

    class Two:
        def check(self, problem):
            pass

        def solve(self, problem, benchmark, progress):
            return {"one": (tours, 2.0), "other": (tours.flip(1), 3.0)}

    parts = Parts()
    solve_baseline(Two(), TSP(5), benchmark, lambda done: None, parts)
    ((name, (solved,)),) = evaluation.results_of("heuristic", [parts], [benchmark]).items()
    assert name.startswith("heuristic: ") and solved.seconds == 5.0


# ---- what was sampled


def test_samples_are_all_costs_in_the_order_they_were_found():
    """Five nodes have 24 tours, so eight rounds of four find them all; chunks of two instances."""
    problem, policy = TSP(5), BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0)
    (benchmark,) = problem.validation(5, seed=0)
    config = methods.wor(4, 8)
    pool = SearchPool(problem, policy, search_batch_rows=8)
    found = evaluation.solve_benchmark(pool, benchmark, config, seed=3)
    keys = evaluation.instance_keys(benchmark, 3)
    alone = search(problem, policy, benchmark.instances, config, keys=keys)
    costs = benchmark.true_cost(torch.arange(5).repeat_interleave(alone.valid.shape[1]), alone.actions.flatten(0, 1))
    for i, (valid, cost) in enumerate(zip(alone.valid, costs.view(alone.valid.shape), strict=True)):
        assert torch.equal(found.samples[i, :24], cost[valid].float()) and found.found[i] == 24
    assert found.samples.shape == (5, 24) and found.samples.dtype == torch.float32
    assert torch.equal(found.samples.amin(dim=1), found.costs.float())


def test_an_instance_has_the_same_key_wherever_it_stands_and_equal_ones_are_numbered():
    (benchmark,) = TSP(5).validation(6, seed=0)
    keys = evaluation.instance_keys(benchmark, 3)
    assert len({*keys.tolist(), *evaluation.instance_keys(benchmark, 4).tolist()}) == 12
    for rows in ([4], [5, 0, 3]):
        assert torch.equal(evaluation.instance_keys(benchmark.part(torch.tensor(rows)), 3), keys[rows])
    odd = (
        torch.ones(6, 2, dtype=torch.bfloat16),
        torch.rand(6, requires_grad=True),
        torch.ones(6, 0),
        torch.ones(6) > 0,
    )
    assert len(set(evaluation.instance_keys(benchmark._replace(instances=odd), 3).tolist())) == 6
    twice = evaluation.instance_keys(benchmark.part(torch.tensor([2, 1, 2, 2])), 3).tolist()
    assert twice[:2] == keys[[2, 1]].tolist() and len(set(twice)) == 4


def test_parts_of_another_division_leave_no_files_that_would_overlap(tmp_path):
    solved = BenchmarkResult.without_policy(torch.zeros(2, 3), torch.ones(2), 1.0)
    Parts(tmp_path).add(slice(0, 2), {SEARCH: solved})
    parts = Parts(tmp_path)
    parts.keep_only([slice(1, 3)])
    assert len(parts) == 0
    parts.add(slice(1, 3), {SEARCH: solved})
    assert Parts(tmp_path).instances().tolist() == [1, 2]


def test_the_time_of_a_search_does_not_contain_the_start_of_the_workers(monkeypatch):
    problem = TSP(5)
    (benchmark,) = problem.validation(2, seed=0)
    pool = SearchPool(problem, BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0))
    called = []
    monkeypatch.setattr(pool, "prepare", lambda: called.append("prepare"))
    monkeypatch.setattr("time.perf_counter", lambda: float(called.append("clock") or 0))
    evaluation.solve_benchmark(pool, benchmark, methods.greedy(), seed=0)
    assert called[:2] == ["prepare", "clock"]


def test_chunks_that_found_less_end_in_nan():
    samples = side_by_side([torch.ones(2, 3), torch.ones(1, 5)])
    assert samples.isnan().sum(dim=1).tolist() == [2, 2, 0] and samples.nansum(dim=1).tolist() == [3, 3, 5]


# ---- solutions for other programs


def test_tours_are_written_as_files_that_are_read_back(policies, tmp_path):
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={DATA}", "num_instances=2", "method=[greedy,beam]")
    files = sorted(path.relative_to(found.folder / "solutions") for path in found.folder.glob("solutions/**/*.*"))
    assert [str(file) for file in files] == [f"{m}/{n}.tour" for m in ("beam", "greedy") for n in ("att48", "berlin52")]
    for row in found.rows:
        tour = read_tour(found.folder / "solutions" / row["method"] / f"{row['instance']}.tour")
        assert tour == list(map(int, row["solution"].split()))
        instance = read_tsplib(DATA / f"{row['instance']}.tsp")
        length = tour_lengths(torch.from_numpy(instance.coords), torch.tensor([tour]), instance.metric)
        assert length.item() == float(row["cost"])


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


def test_exact_costs_are_written_with_their_digits(policies, tmp_path):
    shutil.copy(DATA / "cvrplib" / "A-n32-k5.vrp", tmp_path)
    words = [f"instances={tmp_path / 'A-n32-k5.vrp'}", "problem.distances=exact"]
    found = evaluated(policies / "cvrp.pt", tmp_path, *words)
    shutil.copy(found.folder / "solutions" / "greedy" / "A-n32-k5.sol", tmp_path)
    assert read_solution(tmp_path / "A-n32-k5.sol", 31)[1] == pytest.approx(float(found.rows[0]["cost"]), abs=1e-6)
    again = evaluated(policies / "cvrp.pt", tmp_path, *words, out="again")
    assert again.rows[0]["kind"] == "solution file (.sol)" and float(again.rows[0]["gap"]) == 0


def test_long_names_are_cut_in_file_names(policies, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for end in "ab":
        text = (DATA / "ulysses16.tsp").read_text().replace("NAME: ulysses16.tsp", f"NAME: {'ü' * 400}{end}")
        (folder / f"{end}.tsp").write_text(text)
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    written = [path.name for path in tmp_path.glob("**/*.tour")]
    assert len(written) == 2 and all(re.fullmatch("ü{50}-[0-9a-f]{8}.tour", name) for name in written)
    assert {row["instance"] for row in found.rows} == {"ü" * 400 + "a", "ü" * 400 + "b"}


# ---- surprises


def test_solutions_below_a_reference_are_flagged(policies, tmp_path):
    """A cost published for exact distances, given as that of rounded ones."""
    points = [(1.4 * i, 0) for i in range(9)]
    write_vrp(tmp_path / "line.vrp", points, [0] + [1] * 8, 100)
    write_vrp(tmp_path / "other.vrp", points, [0] + [2] * 8, 100)
    (tmp_path / "table.csv").write_text("name,cost,kind\nline,1000,best known\nother,1000,mine\n")
    words = [f"instances={tmp_path}", f"references={tmp_path / 'table.csv'}", "method=[greedy,beam]"]
    found = evaluated(policies / "cvrp.pt", tmp_path, *words)
    for name, method in found.methods.items():
        (cost,) = [float(row["cost"]) for row in found.of(name) if row["instance"] == "line"]
        assert method["below_reference"] == [
            {"instance": "line", "cost": cost, "reference": 1000.0, "kind": "best known"}
        ]
        line = f"{name}: 1 solution is cheaper than the reference: line ({cost:.0f} < 1000, best known); the mean gap"
        assert f"warning: {line}" in found.output
        assert html.escape(line) in (found.folder / "report.html").read_text()
        assert f"{method['mean_gap']:.3%}" in found.output and method["mean_gap"] < 0


@pytest.mark.parametrize(
    ("cost", "reference", "kind", "flagged"),
    [
        (99.0, 100.0, "optimal (TSPLIB)", True),
        (9_999_999.0, 10_000_000.0, "Best known 2026", True),  # whole numbers have no rounding
        (99.9, 100.0, "lower bound", True),
        (99.9995, 100.0, "optimal", False),
        (100.0, 100.0, "optimal", False),
        (99.0, 100.0, "near-optimal", False),
        (99.0, 100.0, "LKH3 quality", False),
        (99.0, math.nan, "", False),
    ],
)
def test_which_references_a_solution_contradicts(cost, reference, kind, flagged):
    benchmark, solved = benchmark_of([cost], [reference], [kind], {})
    assert contradicted(solved.costs, benchmark).tolist() == [flagged]
    assert len(results.contradiction_lines({"greedy": [solved]}, [benchmark])) == flagged


def test_the_line_names_the_first_instances():
    benchmark, solved = benchmark_of([5.0] * 9, [6.0] * 9, ["optimal"] * 9, {})
    (line,) = results.contradiction_lines({"greedy": [solved]}, [benchmark])
    assert "9 solutions are cheaper than the reference: n0 (5 < 6, optimal), n1" in line and " and 4 more; " in line


def test_what_is_left_out_is_said_and_counted(policies, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    shutil.copy(DATA / "eil51.tsp", folder)
    (folder / "eil51.opt.tour").write_text("TYPE: TOUR\nTOUR_SECTION\n1 1\nEOF\n")
    for i in range(12):
        (folder / f"x{i:02d}.tsp").write_text("TYPE: TSP\nEDGE_WEIGHT_TYPE: MAN_2D\n")
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    assert [row["kind"] for row in found.rows] == ["optimal (TSPLIB)"]
    assert "left out: x00.tsp: line 2: EDGE_WEIGHT_TYPE must be one of" in found.output
    assert "and 3 more such lines, 13 in all" in found.output
    content = json.loads((found.folder / "results.json").read_text())
    assert content["num_left_out"] == 12 and len(content["left_out"]) == 12
    assert content["left_out"][0]["file"] == "x00.tsp" and content["left_out"][0]["reason"].startswith("line 2: EDGE")
    (warning,) = content["warnings"]
    assert warning.startswith(f"{folder}/eil51.opt.tour, line 3: node 1 is visited twice")
    page = (found.folder / "report.html").read_text()
    assert page.count("left out: x") == 12 and html.escape(warning) in page


def test_instances_of_no_cost_have_a_report(policies, tmp_path):
    np.savez(tmp_path / "points.npz", coords=np.ones((3, 5, 2)) * [[[1]], [[2]], [[3]]], cost=[0, 0, 1.5])
    words = ["method=[greedy,gumbeldore]", "search.beam_width=4"]
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={tmp_path / 'points.npz'}", *words)
    assert {row["cost"] for row in found.rows} == {"0.0"} and (found.folder / "report.html").exists()
    assert [row["reference"] for row in found.of("greedy")] == ["", "", "1.5"]
    assert "warning: points/0 and 1 more: the reference cost 0 is taken as unknown" in found.output


def test_sets_without_files_get_none(policies, tmp_path):
    found = evaluated(policies / "tsp.pt", tmp_path, "instances=kool/tsp20", "num_instances=2")
    assert not (found.folder / "solutions").exists() and "solutions/" not in found.output


def test_names_of_instances_do_not_lead_out_of_the_folder(policies, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    text = (DATA / "ulysses16.tsp").read_text()
    for file, name in (("a.tsp", "../../../x y/z"), ("b.tsp", "x_y_z-2"), ("c.tsp", "x y/z")):
        (folder / file).write_text(text.replace("NAME: ulysses16.tsp", f"NAME: {name}"))
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    names = sorted(path.name for path in tmp_path.glob("**/*.tour"))
    assert names == ["x_y_z-2.tour", "x_y_z-3.tour", "x_y_z.tour"]
    assert {path.parent for path in tmp_path.glob("**/*.tour")} == {found.folder / "solutions" / "greedy"}


def test_reference_solutions_cost_what_the_references_say():
    for problem, folder in ((TSP(20), DATA), (CVRP(20, [30, 30]), DATA / "cvrplib")):
        for benchmark in problem.load(str(folder)):
            assert sorted(benchmark.solutions) == list(range(len(benchmark.names)))
            for i, actions in benchmark.solutions.items():
                assert benchmark.true_cost(torch.tensor([i]), actions[None]).item() == benchmark.references[i]
            (table,) = with_table([benchmark], {benchmark.names[0]: (1.0, "mine")}, "mine.csv")
            assert 0 not in table.solutions


# ---- from Python


def test_solving_a_file_from_python(policies):
    problem, policy, *_ = load_policy(policies / "cvrp.pt")
    (benchmark,) = problem.load(str(DATA / "cvrplib" / "A-n32-k5.vrp"))
    with SearchPool(problem, policy) as pool:
        found = evaluation.solve_benchmark(pool, benchmark, methods.gumbeldore(4, 2, step_size=0.3), seed=0)
    walk = problem.reports.solution(found.actions[0])
    assert sorted(node for node in walk if node) == list(range(1, 32)) and found.costs[0] > 784
    assert torch.equal(benchmark.true_cost(torch.tensor([0]), found.actions), found.costs)
    assert load_policy(policies / "cvrp.pt", nearest=3).problem.nearest == 3
    with pytest.raises(ValueError, match="^problem.capacity: tsp has no capacity$"):
        load_policy(policies / "tsp.pt", capacity=[3, 3])


# ---- tables


def benchmark_of(costs, references, kinds, means):
    benchmark = Benchmark(
        [f"n{i}" for i in range(len(costs))], None, None, None, torch.tensor(references).double(), kinds, means
    )
    solved = BenchmarkResult(
        torch.zeros(len(costs), 3),
        torch.tensor(costs).double(),
        torch.ones(len(costs)),
        torch.tensor(costs)[:, None],
        1.0,
        1,
    )
    return benchmark, solved


def test_a_reference_known_as_a_mean_has_a_line_of_its_own():
    known, first = benchmark_of([10.0, 12.0], [10.0, 10.0], ["LKH3", "LKH3"], {"HGS": 10.0})
    plain, second = benchmark_of([3.0], [2.0], ["optimal"], {})
    assert results.mean_lines({"greedy": [first, second]}, [known, plain]) == [
        "gap of the mean cost to HGS (mean 10): greedy 10.000%"
    ]
    better = second._replace(costs=torch.tensor([9.5, 9.5]).double())
    lines = results.mean_lines({"greedy": [first], "beam": [better]}, [known])
    assert lines == ["gap of the mean cost to HGS (mean 10): greedy 10.000%, beam -5.000%"]
    assert results.mean_lines({"greedy": [second]}, [plain]) == []


def test_kinds_of_references_are_counted():
    nan = math.nan
    few, _ = benchmark_of([1.0] * 3, [1.0, nan, 1.0], ["optimal", "", "bound"], {})
    more, _ = benchmark_of([1.0] * 2, [1.0, 1.0], ["optimal", "optimal"], {})
    none, _ = benchmark_of([1.0], [nan], [""], {})
    assert results.reference_of([few, more]) == "optimal (3), bound (1)"
    assert results.reference_of([none, more]) == "optimal" and results.reference_of([none]) is None


def test_workers_are_counted_on_the_cluster_that_was_joined(policies, tmp_path, monkeypatch):
    """`workers=auto` is as many as the cluster has room for: so the cluster is joined before."""
    order = []
    monkeypatch.setattr("gumbeldore.parallel.ray_cluster.join", lambda address, modules: order.append("join"))
    monkeypatch.setattr("gumbeldore.parallel.ray_cluster.room", lambda threads: order.append("room") or 1)
    words = [f"checkpoint={policies / 'tsp.pt'}", "instances=kool/tsp20", "num_instances=2", "solver.workers=0"]
    evaluate.evaluate(compose("evaluate", *words, "ray.address=auto", f"out_dir={tmp_path / 'out'}"))
    assert order == ["join", "room"]
