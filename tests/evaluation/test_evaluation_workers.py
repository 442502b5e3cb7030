"""How many workers an evaluation starts."""

from __future__ import annotations

from pathlib import Path

import torch

import evaluate
from gumbeldore.cli.evaluation import Task, full_chunks, without_idle_workers
from gumbeldore.cli.machine import Machine
from gumbeldore.evaluation.loading import LoadedPolicy
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import unsearched
from models.bq_tsp import BQ
from problems.tsp import TSP
from tests.helpers.commands import compose
from tests.helpers.evaluations import evaluated


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
