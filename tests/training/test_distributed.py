"""Several processes that share out a batch do what one would."""

from __future__ import annotations

import signal
import weakref
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from omegaconf import OmegaConf

import train
from gumbeldore import methods, search
from gumbeldore.cli.setup import set_up
from gumbeldore.parallel.devices import check_processes
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.hardware import available_cores
from gumbeldore.runtime.precision import resolve_precision
from gumbeldore.runtime.stopping import Stopped, never
from gumbeldore.seeding import generator
from gumbeldore.training.dataset import PseudoExperts, Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.ranks import SINGLE_PROCESS, DDPRanks, joined_ranks
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from models.bq_cvrp import BQ as BQforCVRP
from models.bq_tsp import BQ
from models.job_shop import JobShop
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import configured, typed
from tests.helpers.learners import SIZES, new_learner
from tests.helpers.networks import awake
from tests.helpers.ranks import FailsElsewhere, together, torchrun
from tests.helpers.solutions import random_experts

NETWORKS = {
    "tsp": (TSP(7), lambda: BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=1.0)),
    "cvrp": (CVRP(6, [12, 14]), lambda: BQforCVRP(16, 1, 2, 32, canonical_coordinates=True, route_loss=1.0)),
    "jssp": (JSSP([[3, 3]], [[3, 3]], reversal=True), lambda: JobShop(16, 1, 2, 32, lookahead=True, order_loss=1.0)),
}


def trained(case, batches, size, folder, rate):
    """Metrics, last gradients and weights after so many batches, which so many processes share."""
    problem, network = NETWORKS[case]
    settings = TrainSettings(**{**SIZES, "batches_per_epoch": batches, "learning_rate": rate})
    torch.manual_seed(0)
    policy = awake(network())
    state = TrainState(policy, policy, optimizer_of(policy, settings), PseudoExperts(folder))
    instances = problem.generate(20, torch.Generator().manual_seed(0))
    found = search(problem, policy, instances, methods.Sampling(1, 1), torch.Generator().manual_seed(1))
    state.dataset.add(Shard("epoch_1", instances, *found.best()))
    with together(size) if size > 1 else nullcontext((SINGLE_PROCESS, [])) as (ranks, _):
        fitted = imitated(problem, state, settings, ranks)
    return fitted, {name: parameter.grad for name, parameter in policy.named_parameters()}, policy.state_dict()


def imitated(problem, state, settings, ranks, epochs=(0,), stop=never):
    """The last of these epochs, as a run trains them."""
    ranks.start_run(problem, state, settings, "float32", False)
    for state.epoch in epochs:
        fitted = fit(problem, state, settings, generator(5, "batches", state.epoch), Execution(ranks=ranks, stop=stop))
    return fitted


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
def test_the_command_trains_with_two_processes_and_goes_on_with_one(tmp_path):
    done = torchrun(2, "problem.num_nodes=7", "debug=fast", "workers=0", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("writing runs/tsp/") == done.stdout.count("epoch 2/2") == 1  # the first process alone
    (folder,) = (tmp_path / "runs/tsp").iterdir()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2
    config = OmegaConf.load(folder / "config.yaml")  # what a continued run must not decide anew
    assert config.train_threads == max(1, available_cores() // 2)
    assert config.precision == resolve_precision("auto", torch.device("cpu"))
    goes_on = typed(train, f"resume={folder}", "train.epochs=3", cwd=tmp_path)
    assert goes_on.returncode == 0, goes_on.stderr
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
def test_another_process_that_fails_ends_the_run_which_can_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("GUMBELDORE_MODULES", "tests")
    target = f"problem._target_={FailsElsewhere.__module__}.{FailsElsewhere.__name__}"
    failed = torchrun(2, target, "problem.num_nodes=7", "debug=fast", "workers=0", "run_dir=run", cwd=tmp_path)
    assert failed.returncode not in (0, None) and "RuntimeError: there is no such shard" in failed.stderr
    assert not (tmp_path / "run/metrics.jsonl").exists()
    goes_on = torchrun(1, "resume=run", cwd=tmp_path)
    assert goes_on.returncode == 0, goes_on.stderr
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_help_is_printed_once(tmp_path):
    done = torchrun(2, "--help", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("self-improvement") == 1


def learner(folder, **sizes):
    state = new_learner(folder, **sizes)
    state.dataset.add(Shard("epoch_1", *random_experts(10, 6)))
    return state, TrainSettings(**{**SIZES, **sizes})


@pytest.mark.slow
def test_three_that_go_on_end_with_the_weights_of_three_that_begin(tmp_path):
    """A continued run has new processes; in which order they add up their gradients must not depend on that."""
    weights = []
    for runs in ([[0, 1]], [[0], [1]]):
        state, settings = learner(tmp_path / str(len(runs)), batch_size=12)
        for epochs in runs:
            with together(3) as (ranks, _):
                imitated(TSP(6), state, settings, ranks, epochs)
        weights.append(torch.cat([parameter.flatten() for parameter in state.policy.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.slow
def test_a_stop_ends_all_in_the_same_step(tmp_path):
    state, settings = learner(tmp_path)
    steps = iter(range(100))
    with together(2) as (ranks, others):
        with pytest.raises(Stopped) as stopped:
            imitated(TSP(6), state, settings, ranks, stop=lambda: next(steps) >= 5)
        assert stopped.value.batches == 5
        assert imitated(TSP(6), state, settings, ranks, epochs=[1])  # another run of a sweep
    assert [process.returncode for process in others] == [0]


def test_signals_to_all_processes_are_for_the_first_alone(tmp_path):
    """Ctrl-C and a scheduler's SIGTERM reach the whole process group."""
    state, settings = learner(tmp_path, batches_per_epoch=2)
    with together(2) as (ranks, (other,)):
        imitated(TSP(6), state, settings, ranks)
        for number in (signal.SIGINT, signal.SIGTERM):
            other.send_signal(number)
        assert imitated(TSP(6), state, settings, ranks, epochs=[1])
    assert other.returncode == 0


@pytest.mark.slow
def test_a_process_that_dies_ends_the_run_with_a_clear_error(tmp_path):
    state, settings = learner(tmp_path)
    with pytest.raises(WorkerError, match="another training process is gone"), together(2) as (ranks, (other,)):
        imitated(TSP(6), state, settings, ranks)
        other.kill()
        other.wait()
        imitated(TSP(6), state, settings, ranks, epochs=[1])


def test_how_many_processes(monkeypatch):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    rule = "torchrun --nproc-per-node=3: train.batch_size=128 cannot be shared out evenly among 3 processes"
    with pytest.raises(ValueError, match=rule):
        set_up(configured("train"), processes=3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match="torchrun --nproc-per-node=4 needs as many GPUs, device=cuda has 2"):
        check_processes(4, gpu, 128)
    with pytest.raises(ValueError, match="device=cuda:1 has 1"):
        check_processes(2, torch.device("cuda:1"), 128)
    for count, device in ((1, gpu), (2, gpu), (4, cpu)):
        check_processes(count, device, 128)


def test_a_group_of_processes_ends_with_its_training(tmp_path):
    """Its threads, which may want Python's lock, would abort the process where they outlived Python."""
    state, settings = learner(tmp_path)
    with together(2) as (ranks, _):
        imitated(TSP(6), state, settings, ranks)
        group = weakref.ref(dist.group.WORLD)
    assert group() is None


def test_a_group_of_processes_outlives_the_replicas_of_an_error(monkeypatch):
    """Torch may wait for ever if a replica, which an error's traceback holds, has the last reference to a group."""

    class Joined(DDPRanks):
        rank, size = 1, 2

        def __init__(self):
            pass

    class Group:
        """Stands for the default group until it is destroyed."""

    class World:
        WORLD = Group()

    group = weakref.ref(World.WORLD)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("gumbeldore.training.ranks.DDPRanks", Joined)
    monkeypatch.setattr("gumbeldore.training.ranks.FAILED", [])
    monkeypatch.setattr("torch.distributed.is_torchelastic_launched", lambda: True)
    monkeypatch.setattr("torch.distributed.group", World)
    monkeypatch.setattr("torch.distributed.destroy_process_group", lambda: delattr(World, "WORLD"))
    with pytest.raises(WorkerError), joined_ranks():
        assert group() is not None
        raise WorkerError
    assert not hasattr(World, "WORLD") and group() is not None
