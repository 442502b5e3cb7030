"""Searches of a pool: how instances are divided, and that neither chunks nor workers change a solution."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest
import torch

from gumbeldore import SearchPool, methods, search
from gumbeldore.batches import batch_size, take
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.sampler import trie as trie_ops
from problems.tsp import TSP
from tests.helpers.learners import SEARCH, new_learner
from tests.helpers.trees import TablePolicy, TreeProblem


@pytest.mark.parametrize("search_batch_rows", [3, 12, 1000])
def test_the_chunk_size_changes_nothing_for_an_exact_policy(search_batch_rows):
    problem, policy = TreeProblem(), TablePolicy()
    trees, keys = problem.generate(50, torch.Generator().manual_seed(0)), torch.arange(50)
    found = {}
    for rows in (1, search_batch_rows):
        for chunk, solutions in SearchPool(problem, policy, 0, rows).map(trees, keys, methods.Gumbeldore(3, 3, 1.0)):
            for row in range(chunk.start, chunk.stop):
                here = row - chunk.start
                fields = solutions.actions, solutions.gumbels, solutions.costs
                values = [field[here][solutions.valid[here]] for field in fields]
                if row in found:
                    assert all(torch.equal(a, b) for a, b in zip(found[row], values, strict=True))
                found[row] = values
    assert len(found) == 50


@pytest.mark.parametrize(
    ("count", "search_batch_rows", "config", "sizes"),
    [
        (10, 12, SEARCH, [2, 3, 2, 3]),  # three instances fill the rows, and none is left over alone
        (6, 12, SEARCH, [3, 3]),
        (3, 100, SEARCH, [3]),
        (7, 100, SEARCH, [3, 4]),  # one chunk would do, but two workers can share these
        (24, 100, methods.Greedy(), [24]),
        (25, 100, methods.Greedy(), [12, 13]),
        (1, 8, SEARCH, [1]),
    ],
)
def test_chunks_are_as_equal_as_can_be(count, search_batch_rows, config, sizes):
    problem, policy = TSP(7), new_learner().policy
    instances = problem.generate(count, torch.Generator().manual_seed(0))
    pool = SearchPool(problem, policy, 0, search_batch_rows)
    chunks = [chunk for chunk, _ in pool.map(instances, torch.arange(count), config)]
    assert [chunk.stop - chunk.start for chunk in chunks] == sizes
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(count))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_several_searches_at_once_are_those_one_after_another(workers):
    problem, policy = TSP(7), new_learner().policy
    instances, keys = problem.generate(10, torch.Generator().manual_seed(0)), torch.arange(10)
    configs = (SEARCH, methods.Greedy())
    with SearchPool(problem, policy, workers, search_batch_rows=12) as pool:
        found = {(which, chunk.start): x.actions for which, chunk, x in pool.map_all(instances, keys, configs)}
        apart = {(i, chunk.start): x.actions for i in (0, 1) for chunk, x in pool.map(instances, keys, configs[i])}
    assert found.keys() == apart.keys() and all(torch.equal(found[part], apart[part]) for part in found)
    assert {which for which, _ in found} == {0, 1}


class Process(NamedTuple):
    number: int
    solutions: int


def process(solutions):
    return Process(os.getpid(), int(solutions.valid.sum()))


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_solutions_are_read_where_they_were_searched(workers):
    problem, policy = TSP(7), new_learner().policy
    instances, keys = problem.generate(10, torch.Generator().manual_seed(0)), torch.arange(10)
    with SearchPool(problem, policy, workers) as pool:
        found = [x for *_, x in pool.map_all(instances, keys, [methods.WithoutReplacement(4, 1)], read=process)]
    assert sum(x.solutions for x in found) == 40
    assert all((x.number == os.getpid()) == (workers == 0) for x in found)


@pytest.mark.parametrize("config", [methods.Gumbeldore(3, 3, 1.0), methods.Sampling(4, 1), methods.Beam(1)])
def test_chunks_shrink_to_the_memory_of_their_tries(config, monkeypatch):
    problem, policy = TreeProblem(), TablePolicy()
    trees, keys = problem.generate(50, torch.Generator().manual_seed(0)), torch.arange(50)
    pool, asked = SearchPool(problem, policy), []
    monkeypatch.setattr(pool.local, "search", lambda part, *_: asked.append(part))
    created, create = [], trie_ops.create
    monkeypatch.setattr(trie_ops, "create", lambda *args, **kw: created.append(create(*args, **kw)) or created[-1])
    search(problem, policy, take(trees, slice(0, 1)), config, keys=keys[:1])
    tree = created[-1]  # the first one, without storage, tells whether there is room
    for memory, size in ((7.5, 7), (0.5, 1), (100, 50)):  # never less than one instance
        pool.trie_budget = int(memory * trie_ops.memory(tree))
        asked.clear()
        list(pool.map(trees, keys, config))
        assert max(map(batch_size, asked)) == size and sum(map(batch_size, asked)) == 50


class BadProblem(TSP):
    def cost(self, instance, actions):
        raise ZeroDivisionError("the depot is on fire")


@pytest.mark.slow
def test_a_workers_error_ends_the_run_with_its_text():
    policy, instances = new_learner().policy, TSP(7).generate(4, torch.Generator())
    with SearchPool(BadProblem(7), policy, workers=1) as pool:
        pool.load(policy.state_dict())
        with pytest.raises(WorkerError, match="the depot is on fire"):
            list(pool.map(instances, torch.arange(4), SEARCH))
