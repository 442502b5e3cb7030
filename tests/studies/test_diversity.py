"""study=diversity: how good solutions are, and how different from each other."""

from __future__ import annotations

import json

import pytest
import torch

import study
from gumbeldore import SearchPool, methods, search
from gumbeldore.interfaces import without_references
from gumbeldore.studies.diversity import Diversity, distinct_share
from gumbeldore.studies.study import Asked
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import done
from tests.helpers.studies import context, searches_of
from tests.helpers.trees import TablePolicy, TreeProblem

MACHINES = torch.tensor([[[0, 1], [1, 0]]]).expand(3, 2, 2)


def measure(config, pool, instance_set, seed):
    study = Diversity(repetitions=3)
    (point,) = study.measure(context(pool, [instance_set], seed), [Asked("x", {}, config)])
    return point


def sets(edges):
    return [{edge for edge in row if edge >= 0} for row in edges.tolist()]


def test_edges_of_tours_have_no_direction():
    problem = TSP(5)
    instances = problem.generate(3, torch.Generator())
    there, back, other = sets(problem.edges(instances, torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1], [2, 1, 3, 4]])))
    assert there == back == {1, 5 + 2, 10 + 3, 15 + 4, 4} and len(there & other) == 3


def test_edges_of_routes_include_the_depot():
    """Customers 1 to 3, action c - 1 goes there directly and 3 + c - 1 via the depot."""
    problem = CVRP(3, [9, 9])
    instances = problem.generate(2, torch.Generator())
    one, two = sets(problem.edges(instances, torch.tensor([[3, 1, 2], [3, 1, 5]])))
    assert one == {1, 4 + 2, 8 + 3, 3} and two == {1, 4 + 2, 2, 3}


def test_edges_of_schedules_are_the_orders_on_the_machines():
    """Two jobs on two machines, in opposite orders: operation o of job j is 2 j + o."""
    problem = JSSP([[2, 2]], [[2, 2]])
    instances = problem.generate(3, torch.Generator())._replace(machines=MACHINES)
    first, second, same = sets(problem.edges(instances, torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 0, 1]])))
    assert first == {0 * 4 + 3, 1 * 4 + 2} and second == same == {0 * 4 + 3, 2 * 4 + 1}


def test_the_share_of_different_edges():
    edges = torch.tensor([[[1, 2, 3], [1, 2, 4], [7, 8, 9]], [[1, 1, -1], [2, 3, 4], [2, 3, 4]]])
    valid = torch.tensor([[True, True, False], [True, True, True]])
    assert distinct_share(edges, valid).tolist() == [4 / 6, 4 / 8]


@pytest.mark.parametrize("config", [methods.Beam(6), methods.WithoutReplacement(6, 1), methods.Sampling(6, 1)])
def test_a_point_is_the_mean_of_what_the_searches_find(config):
    """Beside a loop over the solutions."""
    problem, policy = TreeProblem(), TablePolicy()
    instance_set = without_references(problem, problem.generate(5, torch.Generator().manual_seed(3)), "trees")
    with SearchPool(problem, policy) as pool:
        found, again, other = (measure(config, pool, instance_set, seed) for seed in (0, 0, 1))
    assert found == again and (found == other) is not config.random
    assert found.lowest <= found.mean <= found.highest and 0 < found.diversity <= 1
    if config == methods.Beam(6):
        each = []
        for index in range(5):
            one = search(problem, policy, instance_set.part(torch.tensor([index])).instances, config)
            actions = [tuple(a) for a, ok in zip(one.actions[0].tolist(), one.valid[0].tolist(), strict=True) if ok]
            edges = [3 * step + action for solution in actions for step, action in enumerate(solution)]
            costs = one.costs[0][one.valid[0]]
            summary = costs.min().item(), costs.mean().item(), costs.max().item()
            each.append([len(actions), len(set(edges)) / len(edges), *summary])
        mean = torch.tensor(each, dtype=torch.float64).mean(dim=0).tolist()
        assert list(found[2:]) == pytest.approx(mean)


def test_an_instance_without_solutions_is_named():
    problem = TreeProblem()
    instances = problem.generate(3, torch.Generator())
    instances.logits[1] = torch.nan
    instance_set = without_references(problem, instances, "trees")
    with SearchPool(problem, TablePolicy()) as pool, pytest.raises(ValueError, match="^instance trees/1: "):
        measure(methods.WithoutReplacement(2, 1), pool, instance_set, 0)


# ---- the command

WORDS = ["study=diversity", "checkpoint=tsp20", "instances=kool/tsp20", "num_instances=3", "workers=0", "repetitions=2"]
WORDS += ["search.temperature=[1,3]", "search.diversity=[0.5,2]", "search.beam_width=4"]


def test_every_method_has_a_point_for_each_value_it_reads():
    asked = searches_of(*WORDS, "search.step_size=1")
    assert [(x.method, x.setting) for x in asked] == [
        *(("sampling", f"temperature={tau}") for tau in (1, 3)),
        *(("wor", f"temperature={tau}") for tau in (1, 3)),
        ("beam", ""),
        *(("diverse_beam", f"diversity={x}") for x in (0.5, 2)),
    ]


@pytest.mark.slow
def test_hotter_samples_differ_more_and_cost_more(tmp_path):
    result = done(study, *WORDS, "out_dir=out", cwd=tmp_path)
    content = json.loads((tmp_path / "out/study.json").read_text())
    points = {(x["curve"], x["setting"]): x for x in content["points"]}
    assert len(points) == 7 and content["quality"] == "gap"
    cold, hot = points["wor", "temperature=1"], points["wor", "temperature=3"]
    assert cold["diversity"] < hot["diversity"] and cold["mean"] < hot["mean"]
    mild, strong = points["diverse_beam", "diversity=0.5"], points["diverse_beam", "diversity=2"]
    assert mild["diversity"] < strong["diversity"]
    assert "diverse_beam" in result.stdout and (tmp_path / "out/study.png").stat().st_size > 10_000
    references = tmp_path / "twice.csv"
    references.write_text("name,cost\n" + "".join(f"kool/tsp20/{i},2\n" for i in range(3)))
    done(study, *WORDS, "out_dir=out", "resume=true", f"references={references}", cwd=tmp_path)
    others = json.loads((tmp_path / "out/study.json").read_text())["points"]
    assert all(other["lowest"] > 0.5 > point["lowest"] for other, point in zip(others, content["points"], strict=True))
