"""InstanceSets as a pool solves them: keys of instances, samples, parts, the time."""

from __future__ import annotations

import torch

from gumbeldore.evaluation import solved_sets as evaluation
from gumbeldore.evaluation.parts import SEARCH, Parts
from gumbeldore.evaluation.solved_sets import SolvedSet
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from models.bq_tsp import BQ
from problems.tsp import TSP


def test_samples_are_all_costs_in_the_order_they_were_found():
    """Five nodes have 24 tours, so eight rounds of four find them all; chunks of two instances."""
    problem, policy = TSP(5), BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0)
    (instance_set,) = problem.validation(5, seed=0)
    config = methods.WithoutReplacement(4, 8)
    pool = SearchPool(problem, policy, search_batch_rows=8)
    found = evaluation.solve_set(pool, instance_set, config, seed=3)
    keys = evaluation.instance_keys(instance_set, 3)
    alone = search(problem, policy, instance_set.instances, config, keys=keys)
    costs = instance_set.true_cost(torch.arange(5).repeat_interleave(alone.valid.shape[1]), alone.actions.flatten(0, 1))
    for i, (valid, cost) in enumerate(zip(alone.valid, costs.view(alone.valid.shape), strict=True)):
        assert torch.equal(found.samples[i, :24], cost[valid].float()) and found.found[i] == 24
    assert found.samples.shape == (5, 24) and found.samples.dtype == torch.float32
    assert torch.equal(found.samples.amin(dim=1), found.costs.float())


def test_an_instance_has_the_same_key_wherever_it_stands_and_equal_ones_are_numbered():
    (instance_set,) = TSP(5).validation(6, seed=0)
    keys = evaluation.instance_keys(instance_set, 3)
    assert len({*keys.tolist(), *evaluation.instance_keys(instance_set, 4).tolist()}) == 12
    for rows in ([4], [5, 0, 3]):
        assert torch.equal(evaluation.instance_keys(instance_set.part(torch.tensor(rows)), 3), keys[rows])
    odd = (
        torch.ones(6, 2, dtype=torch.bfloat16),
        torch.rand(6, requires_grad=True),
        torch.ones(6, 0),
        torch.ones(6) > 0,
    )
    assert len(set(evaluation.instance_keys(instance_set._replace(instances=odd), 3).tolist())) == 6
    twice = evaluation.instance_keys(instance_set.part(torch.tensor([2, 1, 2, 2])), 3).tolist()
    assert twice[:2] == keys[[2, 1]].tolist() and len(set(twice)) == 4


def test_parts_of_another_division_leave_no_files_that_would_overlap(tmp_path):
    solved = SolvedSet.without_policy(torch.zeros(2, 3), torch.ones(2), 1.0)
    Parts(tmp_path).add(slice(0, 2), {SEARCH: solved})
    parts = Parts(tmp_path)
    parts.keep_only([slice(1, 3)])
    assert len(parts) == 0
    parts.add(slice(1, 3), {SEARCH: solved})
    assert Parts(tmp_path).instances().tolist() == [1, 2]


def test_the_time_of_a_search_does_not_contain_the_start_of_the_workers(monkeypatch):
    problem = TSP(5)
    (instance_set,) = problem.validation(2, seed=0)
    pool = SearchPool(problem, BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=0))
    called = []
    monkeypatch.setattr(pool, "prepare", lambda: called.append("prepare"))
    monkeypatch.setattr("time.perf_counter", lambda: float(called.append("clock") or 0))
    evaluation.solve_set(pool, instance_set, methods.Greedy(), seed=0)
    assert called[:2] == ["prepare", "clock"]


def test_chunks_that_found_less_end_in_nan():
    parts = Parts()
    for rows, found in (slice(0, 2), torch.ones(2, 3)), (slice(2, 3), torch.ones(1, 5)):
        solved = SolvedSet.without_policy(torch.zeros(len(found), 3), torch.ones(len(found)), 1.0)
        parts.add(rows, {SEARCH: solved._replace(samples=found)})
    samples = parts.joined()[SEARCH].samples
    assert samples.isnan().sum(dim=1).tolist() == [2, 2, 0] and samples.nansum(dim=1).tolist() == [3, 3, 5]
