"""Several processes that share out a batch do what one would."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from torch import nn

import train
from gumbeldore import methods
from gumbeldore.dataset import PseudoExperts
from gumbeldore.imitation import fit
from gumbeldore.learner import Learner
from gumbeldore.optimizer import optimizer_of
from gumbeldore.search import search
from gumbeldore.seeding import generator
from gumbeldore.settings import TrainSettings
from gumbeldore.trainers import Task, Trainers
from gumbeldore.workers import WorkerError, resolve_trainers
from models.bq import BQ
from models.bq_cvrp import BQ as BQforCVRP
from models.job_shop import JobShop
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from problems.tsp_types import Instance
from tests.test_commands import typed
from tests.test_training import SIZES, experts

NETWORKS = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, own_frame=True, successor_loss=1.0)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, own_frame=True, neighbour_loss=1.0)),
    "jssp": (JSSP([[3, 3]], [3, 3], True, True), lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=1.0)),
}


def gradients(case, batches, trainers, folder):
    """Of the last of so many batches, at a learning rate that changes next to nothing."""
    problem, network = NETWORKS[case]
    settings = TrainSettings(**{**SIZES, "batches_per_epoch": batches, "learning_rate": 1e-9})
    torch.manual_seed(0)
    policy = network()
    for name, parameter in policy.named_parameters():
        if name.endswith("scale"):  # ReZero begins with layers that do nothing
            nn.init.constant_(parameter, 0.5)
    learner = Learner(policy, policy, optimizer_of(policy, settings), PseudoExperts(folder))
    instances = problem.generate(20, torch.Generator().manual_seed(0))
    found = search(problem, policy, instances, methods.sampling(1), torch.Generator().manual_seed(1))
    learner.dataset.add("epoch_1", instances, *found.best())
    arguments = (problem, learner, settings, generator(5, "batches", 0), torch.device("cpu"), "float32")
    if trainers == 1:
        fitted = fit(*arguments)
    else:
        devices = ["cpu"] * trainers
        with Trainers(Task(problem, policy, settings, 5, "float32", devices, folder, type(instances), fit)) as together:
            together.begin(learner)
            fitted = fit(*arguments, trainers=together)
    return fitted.metrics, {name: parameter.grad for name, parameter in policy.named_parameters()}


@pytest.mark.parametrize("case", NETWORKS)
def test_shared_batches_have_the_gradients_of_whole_ones(case, tmp_path):
    for batches in (1, 4):
        (alone, whole), (together, shared) = (gradients(case, batches, n, tmp_path / f"{batches}{n}") for n in (1, 2))
        assert sum(gradient.abs().max() > 1e-4 for gradient in whole.values()) > 12
        for name, gradient in whole.items():
            torch.testing.assert_close(shared[name], gradient, rtol=1e-4, atol=1e-6)
        for name, value in alone.items():
            assert together[name] == pytest.approx(value, rel=1e-4), name


def test_the_command_trains_with_two_processes(tmp_path):
    words = ["problem.num_nodes=7", "debug=fast", "trainers=2", "run_dir=run"]
    done = typed(train, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2


def learner_and_trainers(tmp_path, **sizes):
    settings = TrainSettings(**{**SIZES, **sizes})
    torch.manual_seed(0)
    policy = BQ(width=16, layers=1, heads=2, feedforward=32, own_frame=False, successor_loss=0)
    learner = Learner(policy, policy, optimizer_of(policy, settings), PseudoExperts(tmp_path))
    learner.dataset.add("epoch_1", *experts(10, 6))
    task = Task(TSP(6), policy, settings, 5, "float32", ["cpu", "cpu"], tmp_path, Instance, fit)
    return learner, settings, task


def test_a_stop_ends_all_in_the_same_step(tmp_path):
    learner, settings, task = learner_and_trainers(tmp_path)
    steps = iter(range(100))
    with Trainers(task) as trainers:
        for epoch, limit in enumerate((5, 1000)):
            learner.epoch = epoch
            trainers.begin(learner)
            draws = generator(5, "batches", epoch)
            stop = lambda: next(steps) >= limit  # noqa: B023, E731
            fitted = fit(TSP(6), learner, settings, draws, torch.device("cpu"), "float32", stop=stop, trainers=trainers)
            assert fitted.batches == (5, settings.batches_per_epoch)[epoch]
    assert all(process.exitcode == 0 for process in trainers.processes)


def test_a_trainer_that_dies_ends_the_run_with_a_clear_error(tmp_path):
    learner, settings, task = learner_and_trainers(tmp_path)
    with (
        pytest.raises(WorkerError, match="trainer 1 of 2 died"),
        Trainers(task) as trainers,
    ):
        os.kill(trainers.processes[0].pid, signal.SIGKILL)
        trainers.processes[0].join()
        trainers.begin(learner)
        draws = generator(5, "batches", 0)
        fit(TSP(6), learner, settings, draws, torch.device("cpu"), "float32", trainers=trainers)


def test_what_cannot_be_shared_out_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="train.batch_size=31 cannot be shared out evenly among trainers=2"):
        learner_and_trainers(tmp_path, batch_size=31)
        Trainers(
            Task(
                None,
                nn.Identity(),
                TrainSettings(**{**SIZES, "batch_size": 31}),
                0,
                "float32",
                ["cpu"] * 2,
                *[None] * 3,
            )
        )
    for wrong in (0, -1, True, 1.5, "many"):
        with pytest.raises(ValueError, match="trainers must be 'auto' or an integer of at least 1"):
            resolve_trainers(wrong, torch.device("cpu"))
    assert resolve_trainers("auto", torch.device("cpu")) == ["cpu"]
    assert resolve_trainers(3, torch.device("cpu")) == ["cpu"] * 3
