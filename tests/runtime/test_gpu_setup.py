"""What every process does before it computes on a GPU; tests/test_gpu.py asks one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gumbeldore.parallel import pool, ray_cluster
from gumbeldore.parallel.devices import trie_budget
from gumbeldore.runtime import gpu
from gumbeldore.training import ranks
from gumbeldore.training.following import begun
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.settings import TrainSettings
from models.bq_tsp import BQ
from models.micro_batches import RowSize, max_rows
from problems.tsp import TSP
from tests.helpers.learners import SIZES

GPU = torch.device("cuda", 0)
MEMORY = 80 * 2**30


def network() -> BQ:
    return BQ(16, 1, 2, 32, canonical_coordinates=False, successor_loss=0)


def worker(device: torch.device) -> pool.Worker:
    return pool.Worker(TSP(6), network(), str(device), "float32", 1, False)


@pytest.fixture(autouse=True)
def chosen(monkeypatch):
    """The devices that were chosen, of a machine whose GPU has `MEMORY`; networks stay on the CPU.

    What a process sets for good is undone.
    """
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=MEMORY))
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, _: self)
    monkeypatch.setattr(gpu, "_sharing", 1)
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield chosen
    torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize("set_up", [gpu.use_device, worker])
def test_attention_does_not_wait_for_plans_of_cudnn(set_up, chosen):
    set_up(torch.device("cpu"))
    assert torch.backends.cuda.cudnn_sdp_enabled()
    set_up(GPU)
    assert not torch.backends.cuda.cudnn_sdp_enabled() and chosen == [GPU]


@pytest.mark.parametrize(
    ("workers", "gpus", "beside_training", "sharing"),
    [(0, 1, True, 1), (4, 4, False, 1), (4, 4, True, 2), (3, 2, False, 2), (3, 2, True, 3), (2, 1, True, 3)],
)
def test_processes_share_the_memory_of_a_gpu(workers, gpus, beside_training, sharing, monkeypatch):
    monkeypatch.setattr(ray_cluster, "gpus", lambda: gpus)
    started = []
    monkeypatch.setattr(pool, "_start_actors", lambda workers, per_gpu, threads, arguments: started.append(arguments))
    monkeypatch.setattr(pool.SearchPool, "load", lambda self, weights: None)
    row = RowSize(1000, 1000)
    alone = max_rows(row, GPU)
    here = pool.SearchPool(TSP(6), network(), workers, device=str(GPU), beside_training=beside_training)
    assert here.trie_budget == MEMORY // sharing // 4
    gpu.use_device(GPU)
    worker = pool.Worker(*started[0]) if workers else here.local
    assert worker.memory == trie_budget(str(GPU)) == here.trie_budget
    assert max_rows(row, GPU) == pytest.approx(alone / sharing)


@pytest.mark.parametrize("sharing", [1, 2])
def test_a_worker_keeps_no_freed_memory_from_others(sharing, monkeypatch):
    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    monkeypatch.setattr(pool.Worker, "search", lambda self, job: f"solutions of {job}")
    weights = [SimpleNamespace(hex=lambda: "")]  # those the worker has
    worker = pool.RemoteWorker(TSP(6), network(), str(GPU), "float32", 1, False, sharing)
    assert worker.work(weights, "a job") == "solutions of a job" and len(emptied) == sharing - 1


@pytest.mark.parametrize(("there", "backend"), [(False, "gloo"), (True, "cpu:gloo,cuda:nccl")])
def test_processes_talk_by_nccl_about_what_is_on_gpus(there, backend, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(ranks.dist, "init_process_group", lambda backend, **_: asked.append(backend))
    monkeypatch.setattr(ranks.dist, "get_rank", lambda: 1)
    monkeypatch.setattr(ranks.dist, "get_world_size", lambda: 2)
    assert (ranks.DDPRanks().rank, asked) == (1, [backend])


def test_each_process_takes_its_own_gpu(chosen, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    policy, settings = network(), TrainSettings(**SIZES)
    begin = optimizer_of(policy, settings).state_dict()
    run = ranks.Run(TSP(6), policy, begin, settings, None, "cuda", "float32", False, 1)
    _, execution = begun(run, ranks.SINGLE_PROCESS)
    assert chosen == [execution.device] == [torch.device("cuda", 1)]
