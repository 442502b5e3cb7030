"""Several processes that share out a batch do what one would."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from omegaconf import OmegaConf

import train
from gumbeldore.parallel.devices import resolve_processes
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.seeding import generator
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.distributed import DDPLauncher, DDPTask
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.ranks import DDPRank
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.job_shop import JobShop
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from problems.tsp.instances import Instance
from tests.helpers.commands import typed
from tests.helpers.learners import SIZES
from tests.helpers.networks import awake
from tests.helpers.solutions import random_experts

NETWORKS = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=1.0)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, canonical_coordinates=True, route_loss=1.0)),
    "jssp": (JSSP([[3, 3]], [[3, 3]], reversal=True), lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=1.0)),
}


def trained(case, batches, ddp, folder, rate):
    """Metrics, last gradients and weights after so many batches."""
    problem, network = NETWORKS[case]
    settings = TrainSettings(**{**SIZES, "batches_per_epoch": batches, "learning_rate": rate})
    torch.manual_seed(0)
    policy = awake(network())
    train_state = TrainState(policy, policy, optimizer_of(policy, settings), PseudoExperts(folder))
    instances = problem.generate(20, torch.Generator().manual_seed(0))
    found = search(problem, policy, instances, methods.Sampling(1, 1), torch.Generator().manual_seed(1))
    train_state.dataset.add("epoch_1", instances, *found.best())
    arguments = (problem, train_state, settings, generator(5, "batches", 0))
    if ddp == 1:
        fitted = fit(*arguments)
    else:
        devices = ["cpu"] * ddp
        parts = problem, policy, settings, 5, "float32", False
        with DDPLauncher(DDPTask(*parts, devices, 1, folder, type(instances), fit)) as together:
            fitted = fit(*arguments, Execution(ddp=together))
    return fitted.metrics, {name: parameter.grad for name, parameter in policy.named_parameters()}, policy.state_dict()


@pytest.mark.parametrize("case", [pytest.param(x, marks=pytest.mark.slow) for x in ("tsp", "cvrp", "jssp")])
def test_shared_batches_have_the_gradients_of_whole_ones(case, tmp_path):
    for batches in (1, 4):
        results = (trained(case, batches, n, tmp_path / f"{batches}{n}", rate=1e-9) for n in (1, 2))
        (alone, whole, _), (together, shared, _) = results
        assert sum(gradient.abs().max() > 1e-4 for gradient in whole.values()) > 12
        for name, gradient in whole.items():
            torch.testing.assert_close(shared[name], gradient, rtol=1e-4, atol=1e-6)
        for name, value in alone.items():
            assert together[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.slow
def test_the_command_trains_with_two_processes(tmp_path):
    words = ["problem.num_nodes=7", "debug=fast", "train_processes=2", "run_dir=run"]
    done = typed(train, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2
    config = OmegaConf.load(tmp_path / "run/config.yaml")  # what a continued run must not decide anew
    assert (config.train_processes, config.precision) == (2, resolve_precision("auto", torch.device("cpu")))


def learner_and_trainers(tmp_path, **sizes):
    settings = TrainSettings(**{**SIZES, **sizes})
    torch.manual_seed(0)
    policy = BQ(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)
    train_state = TrainState(policy, policy, optimizer_of(policy, settings), PseudoExperts(tmp_path))
    train_state.dataset.add("epoch_1", *random_experts(10, 6))
    task = DDPTask(TSP(6), policy, settings, 5, "float32", False, ["cpu", "cpu"], 1, tmp_path, Instance, fit)
    return train_state, settings, task


@pytest.mark.slow
def test_three_that_go_on_end_with_the_weights_of_three_that_begin(tmp_path):
    """A continued run has new processes; in which order they add up their gradients must not depend on that."""
    weights = []
    for runs in ([[0, 1]], [[0], [1]]):
        train_state, settings, task = learner_and_trainers(tmp_path / str(len(runs)), batch_size=12)
        for epochs in runs:
            with DDPLauncher(task._replace(devices=["cpu"] * 3)) as ddp:
                for train_state.epoch in epochs:
                    draws = generator(5, "batches", train_state.epoch)
                    fit(TSP(6), train_state, settings, draws, Execution(ddp=ddp))
        weights.append(torch.cat([parameter.flatten() for parameter in train_state.policy.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.slow
def test_a_stop_ends_all_in_the_same_step(tmp_path):
    train_state, settings, task = learner_and_trainers(tmp_path)
    steps = iter(range(100))
    with DDPLauncher(task) as ddp:
        for epoch, limit in enumerate((5, 1000)):
            train_state.epoch = epoch
            draws = generator(5, "batches", epoch)
            stop = lambda: next(steps) >= limit  # noqa: B023, E731
            fitted = fit(TSP(6), train_state, settings, draws, Execution(ddp=ddp, stop=stop))
            assert fitted.batches == (5, settings.batches_per_epoch)[epoch]
    assert all(process.exitcode == 0 for process in ddp.processes)


@pytest.mark.slow
def test_signals_to_all_processes_are_for_the_first_alone(tmp_path):
    """Ctrl-C and a scheduler's SIGTERM reach the whole process group."""
    train_state, settings, task = learner_and_trainers(tmp_path, batches_per_epoch=2)
    with DDPLauncher(task) as ddp:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(ddp.processes[0].pid, number)
        assert fit(TSP(6), train_state, settings, generator(5, "batches", 0), Execution(ddp=ddp)).complete


def test_no_trainer_outlives_a_start_that_is_interrupted(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    _, _, task = learner_and_trainers(tmp_path)
    monkeypatch.setattr(DDPRank, "__init__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        DDPLauncher(task)
    assert not torch.multiprocessing.active_children()


@pytest.mark.slow
def test_a_trainer_that_dies_ends_the_run_with_a_clear_error(tmp_path):
    train_state, settings, task = learner_and_trainers(tmp_path)
    with (
        pytest.raises(WorkerError, match="training process 1 of 2 died"),
        DDPLauncher(task) as ddp,
    ):
        os.kill(ddp.processes[0].pid, signal.SIGKILL)
        ddp.processes[0].join()
        draws = generator(5, "batches", 0)
        fit(TSP(6), train_state, settings, draws, Execution(ddp=ddp))


def fails_in_the_other(problem, train_state, settings, draws, execution):
    if execution.ddp.rank:
        raise ValueError("there is no such shard")


@pytest.mark.slow
def test_the_error_of_another_trainer_is_told(tmp_path, capfd):
    train_state, _, task = learner_and_trainers(tmp_path)
    with (
        pytest.raises(WorkerError, match="training process 1 of 2 failed: ValueError: there is no such shard"),
        DDPLauncher(task._replace(fit=fails_in_the_other)) as ddp,
    ):
        ddp.start_epoch(train_state)
        ddp.mean(torch.ones(1))
    assert "Traceback" in capfd.readouterr().err


def test_how_many_trainers(monkeypatch):
    cpu = torch.device("cpu")
    with pytest.raises(ValueError, match="train.batch_size=31 cannot be shared out evenly among train_processes=2"):
        resolve_processes(2, cpu, 31)
    for wrong in (0, -1, True, 1.5, "many"):
        with pytest.raises(ValueError, match="train_processes must be an integer of at least 1 or 'auto'"):
            resolve_processes(wrong, cpu, 128)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    rule = "train_processes=4 need as many GPUs, device=cuda has 1; train_processes=auto takes those that are there"
    with pytest.raises(ValueError, match=rule):
        resolve_processes(4, torch.device("cuda"), 128)
    assert resolve_processes("auto", cpu, 128) == ["cpu"]
    assert resolve_processes(3, cpu, 129) == ["cpu"] * 3
    for gpus, used in ((1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8)):  # the most that share out 128 evenly
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        assert resolve_processes("auto", torch.device("cuda"), 128) == (
            ["cuda"] if used == 1 else [f"cuda:{i}" for i in range(used)]
        )
