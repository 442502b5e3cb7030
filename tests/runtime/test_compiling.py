"""Compiled layers compute what they compute uncompiled, and whoever asks for them gets them."""

from __future__ import annotations

import copy
import json
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import train
from gumbeldore.cli.machine import Machine
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.sampler.methods import Gumbeldore
from models.bq_tsp import BQ
from models.job_shop import JobShop
from problems.tsp import TSP
from tests.helpers.commands import refused, typed
from tests.helpers.networks import awake
from tests.helpers.ranks import torchrun

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


def compiled(network: nn.Module) -> list[str]:
    return [name for name, module in network.named_modules() if module._compiled_call_impl is not None]


def test_layers_are_compiled_copies_are_not():
    network = JobShop(16, 2, 2, 32, lookahead=True, order_loss=1)
    compile_layers(network)
    assert compiled(network) == ["job_wise.0", "job_wise.1", "machine_wise.0", "machine_wise.1"]
    assert compiled(copy.deepcopy(network)) == []
    with pytest.raises(ValueError, match="compile has no effect on Linear: it has no nn.ModuleList of layers"):
        compile_layers(nn.Linear(2, 2))


def test_training_without_a_compiler_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    words = ["debug=fast", "device=cpu", "workers=0", "run_dir=run"]
    monkeypatch.setenv("CXX", "none++")
    needs = "compile=true needs a C++ compiler, and there is no none++ in PATH; CXX can name another"
    assert refused(train, *words, "compile=true", cwd=tmp_path) == f"error: {needs}\n"


@pytest.mark.slow
@needs_a_compiler
def test_same_gradients():
    torch.manual_seed(0)
    problem, network = TSP(8), awake(BQ(16, 2, 2, 32, canonical_coordinates=True, successor_loss=1)).double()
    other = copy.deepcopy(network)
    compile_layers(other)
    instance = problem.generate(5, torch.Generator().manual_seed(0))
    instance = instance._replace(coords=instance.coords.double())
    state, rest = problem.reset(instance), torch.arange(1, 8).expand(5, -1)
    for step in range(5):
        losses = []
        for policy in (network, other):
            policy.zero_grad()
            logits, auxiliary = policy.with_auxiliary_loss(policy.encode(instance), state, rest[:, step:])
            losses.append(F.cross_entropy(logits, rest[:, step]) + auxiliary)
            losses[-1].backward()
        torch.testing.assert_close(*losses)
        for ours, theirs in zip(network.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(theirs.grad, ours.grad)
        state = problem.step(instance, state, rest[:, step])


@pytest.mark.slow
@needs_a_compiler
def test_same_solutions():
    torch.manual_seed(0)
    problem, network = TSP(8), awake(BQ(16, 2, 2, 32, canonical_coordinates=True, successor_loss=0)).double()
    instances = problem.generate(6, torch.Generator().manual_seed(0))
    instances = instances._replace(coords=instances.coords.double())
    found = []
    for wanted in (False, True):
        with SearchPool(problem, network, search_batch_rows=12, compiled=wanted) as pool:
            found += [[s for _, s in pool.map(instances, torch.arange(6), Gumbeldore(4, 2, 0.3))]]
    for plain, fast in zip(*found, strict=True):
        assert torch.equal(plain.actions, fast.actions)
        torch.testing.assert_close(plain.log_probs, fast.log_probs)


@pytest.mark.parametrize("wanted", [False, True])
def test_sampling_and_evaluations_are_compiled_if_asked_for(wanted):
    network = BQ(16, 2, 2, 32, canonical_coordinates=True, successor_loss=0)
    machine = Machine(torch.device("cpu"), "float32", wanted, 0, 1, 8)
    with SearchPool(TSP(8), network, compiled=wanted) as sampling, machine.pool(TSP(8), network) as evaluating:
        for pool in (sampling, evaluating):
            assert bool(compiled(pool.local.policy)) == wanted and not compiled(network)


def test_a_network_without_layers_is_refused_before_workers_start():
    with pytest.raises(ValueError, match="compile has no effect on Linear"):
        SearchPool(TSP(8), nn.Linear(2, 2), workers=2, compiled=True)


@pytest.mark.slow
@needs_a_compiler
def test_the_command_trains_with_compiled_layers(tmp_path):
    losses = []
    same = ["problem.num_nodes=7", "debug=fast", "precision=float32"]
    for number, word in enumerate(("compile=false", "compile=true", "compile=true")):
        words = [*same, f"run_dir=run{number}", word]
        done = torchrun(2, *words, cwd=tmp_path) if number == 2 else typed(train, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        first, _ = (tmp_path / f"run{number}/metrics.jsonl").read_text().splitlines()
        losses.append(json.loads(first)["training/loss"])
    assert losses == [pytest.approx(losses[0], rel=1e-3)] * 3
