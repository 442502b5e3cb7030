"""Expert datasets: random training instances, solved by established solvers and written as pseudo-experts."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import permutations

import numpy as np
import pytest
import torch

from gumbeldore.cli.configuration import Configuration
from gumbeldore.interfaces import Problem
from gumbeldore.runtime.files import cache_folder
from gumbeldore.training.dataset import PseudoExperts
from problems.solvers import Solver
from problems.solvers import __main__ as program
from problems.solvers import backends as registry
from problems.solvers.solver import as_instance_set
from problems.tsp import TSP
from problems.tsp import instances as tsp_types
from tests.helpers.commands import ROOT, compose, typed

pytest.importorskip("pyvrp")
pytest.importorskip("ortools")


def experts(*words, cwd):
    # From a folder without the project, as after an installation.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "problems.solvers", "workers=0", *words]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})


@pytest.mark.slow
def test_experts_can_be_learnt_from(tmp_path):
    words = ["problem=tsp", "problem.num_nodes=7", "num_instances=6", "patience=20", "out=data.npz"]
    result = experts(*words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "written: data.npz" in result.stdout and "or 20 iterations without improvement" in result.stdout
    dataset = PseudoExperts(tmp_path)
    dataset.restore(["data"], tsp_types.Instance)
    (shard,) = dataset.shards
    problem = TSP(7)
    assert shard.instances.coords.shape == (6, 7, 2) and shard.instances.coords.dtype == torch.float32
    assert shard.costs.dtype == torch.float32
    assert torch.equal(problem.cost(shard.instances, shard.actions), shard.costs)
    every = torch.tensor(list(permutations(range(1, 7))))
    for i in range(6):
        repeated = tsp_types.Instance(shard.instances.coords[i].expand(len(every), -1, -1))
        assert shard.costs[i].item() == pytest.approx(problem.cost(repeated, every).min().item(), rel=1e-5)
    assert dataset.batch(problem, 4, torch.Generator()).remaining_actions.shape[0] == 4

    again = experts(*words, cwd=tmp_path)
    assert again.returncode == 2 and again.stderr == "error: out=data.npz exists already; choose another\n"
    kept = sorted(cache_folder("solvers").glob("*/*.npz"))
    assert len(kept) == 6
    elsewhere = experts(*words[:-1], "out=other.npz", cwd=tmp_path)
    assert elsewhere.returncode == 0
    assert sorted(cache_folder("solvers").glob("*/*.npz")) == kept  # nothing is solved anew
    with np.load(tmp_path / "data.npz") as first, np.load(tmp_path / "other.npz") as second:
        assert all((first[name] == second[name]).all() for name in ("instance.coords", "actions", "costs"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["problem=tsp"], "out must be given"),
        (["out=x.npz", "train.batch_size=2"], "train.batch_size has no effect here"),
        (["out=x.npz", "problem.grow=[8,0.5]"], "problem.grow has no effect here"),
        (["problem=jssp", "out=x.npz", "num_instances=1", "problem.window=5"], "window has no effect here"),
        (["problem=fjsp", "out=x.npz", "num_instances=1", "problem.jobs_in_view=5"], "jobs_in_view has no effect here"),
        (["out=x.npz", "seed=[1,2]"], "seed must be an integer of at least 0, got [1, 2]"),
        (["out=x.txt"], "out must name a .npz file, got x.txt"),
        (["out=x.npz", "time_limit=0"], "time_limit must be a number above 0, got 0"),
        (["out=x.npz", "workers=many"], "workers must be an integer of at least 0 or 'auto'"),
        (["out=x.npz", "problem.num_nodes=2"], "problem: num_nodes must be at least 3"),
    ],
)
def test_wrong_words_are_one_line(tmp_path, words, message):
    result = typed(program, *words, cwd=tmp_path)
    assert result.returncode == 2 and message in result.stderr and "Traceback" not in result.stderr
    assert not list(tmp_path.glob("*.npz"))


def test_an_interrupted_dataset_goes_on_where_it_stopped(tmp_path, monkeypatch):
    real, calls = registry.backend_of("tsp"), []

    def interrupted(row, options):
        calls.append(row)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real.solve(row, options)

    monkeypatch.setitem(registry.BACKENDS, "tsp", real._replace(solve=interrupted))
    words = ["problem.num_nodes=6", "num_instances=4", "patience=5", f"out={tmp_path / 'data.npz'}"]
    with pytest.raises(KeyboardInterrupt, match="interrupted: 2 of 4 are solved and kept"):
        program.experts(compose("experts", "workers=0", *words))
    assert not (tmp_path / "data.npz").exists()
    program.experts(compose("experts", "workers=0", *words))
    assert len(calls) == 3 + 2 and (tmp_path / "data.npz").is_file()


@pytest.mark.parametrize("name", ["tsp", "cvrp", "jssp"])
def test_generated_instances_of_every_problem_are_solved(name):
    """The originals match the instances: what the solver says holds by the problem's own cost."""
    small = {"tsp": ["num_nodes=9"], "cvrp": ["num_customers=8"], "jssp": ["sizes=[[4,3]]"]}[name]
    cfg = compose("experts", "workers=0", f"problem={name}", *(f"problem.{word}" for word in small))
    problem = Configuration(cfg).part("problem", Problem)
    instances = problem.generate(3, torch.Generator().manual_seed(0))
    result = Solver(time_limit=0.2).solve(name, as_instance_set(problem, instances))
    assert problem.cost(instances, result.actions).double().tolist() == pytest.approx(result.costs.tolist(), rel=1e-5)
