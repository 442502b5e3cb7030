"""What every process does before it computes on a GPU; tests/test_gpu.py asks one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gumbeldore.parallel import pool, ray_cluster
from gumbeldore.parallel.devices import resolve_device, trie_budget
from gumbeldore.runtime import gpu
from gumbeldore.sampler import methods
from gumbeldore.training import ranks
from models.bq_tsp import BQ
from models.micro_batches import RowSize, max_rows
from problems.tsp import TSP
from tests.helpers.pretended import GPU, pretended_gpu


def network() -> BQ:
    return BQ(16, 1, 2, 32, canonical_coordinates=False, successor_loss=0)


def worker(device: torch.device) -> pool.Worker:
    return pool.Worker(TSP(6), network(), str(device), "float32", 1, False)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What a process sets for good is undone."""
    monkeypatch.setattr(gpu, "_sharing", 1)
    torch.backends.cuda.enable_cudnn_sdp(True)
    yield
    torch.backends.cuda.enable_cudnn_sdp(True)


@pytest.mark.parametrize("set_up", [gpu.use_device, lambda device: resolve_device(str(device)), worker])
def test_attention_does_not_wait_for_plans_of_cudnn(set_up, monkeypatch):
    chosen = []
    set_up(torch.device("cpu"))
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with pretended_gpu():
        monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
        set_up(GPU)
    assert not torch.backends.cuda.cudnn_sdp_enabled() and chosen == [GPU]


@pytest.mark.parametrize(
    ("workers", "gpus", "beside_training", "sharing"),
    [(0, 1, True, 1), (4, 4, False, 1), (4, 4, True, 2), (3, 2, False, 2), (3, 2, True, 3), (2, 1, True, 3)],
)
def test_processes_share_the_memory_of_a_gpu(workers, gpus, beside_training, sharing, monkeypatch):
    monkeypatch.setattr(ray_cluster, "gpus", lambda: gpus)
    started = []
    monkeypatch.setattr(pool, "_start_actors", lambda workers, per_gpu, arguments: started.append(arguments))
    monkeypatch.setattr(pool.SearchPool, "load", lambda self, weights: None)
    row, all_of_it = RowSize(1000, 1000), 80 * 2**30
    with pretended_gpu(gib=80):
        alone = max_rows(row, GPU)
        here = pool.SearchPool(TSP(6), network(), workers, device=str(GPU), beside_training=beside_training)
        assert here.trie_budget == all_of_it // sharing // 4
        gpu.use_device(GPU)
        worker = pool.Worker(*started[0]) if workers else here.local
        assert worker.memory == trie_budget(str(GPU)) == here.trie_budget
        assert max_rows(row, GPU) == pytest.approx(alone / sharing)


@pytest.mark.parametrize("sharing", [1, 2])
def test_a_worker_keeps_no_freed_memory_from_others(sharing, monkeypatch):
    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    weights = [SimpleNamespace(hex=lambda: "")]  # those the worker has
    with pretended_gpu():
        worker = pool.RemoteWorker(TSP(6), network(), str(GPU), "float32", 1, False, sharing)
        instances = TSP(6).generate(2, torch.Generator())
        found = worker.work(weights, instances, torch.arange(2), methods.greedy(), pool.all_of)
    assert found.valid.all() and len(emptied) == sharing - 1


@pytest.mark.parametrize(("device", "backend", "bound"), [("cpu", "gloo", None), ("cuda:1", "nccl", "cuda:1")])
def test_a_rank_is_bound_to_its_gpu(device, backend, bound, monkeypatch):
    asked = []
    monkeypatch.setattr(ranks.dist, "init_process_group", lambda *args, **options: asked.append((args, options)))
    monkeypatch.setattr(ranks.dist, "new_group", lambda **options: options["backend"])
    rank = ranks.DDPRank(1, 2, 12345, device, torch.get_num_threads())
    ((args, options),) = asked
    assert args == (backend,) and options["device_id"] == (torch.device(bound) if bound else None)
    assert (options["rank"], options["world_size"], rank.words) == (1, 2, "gloo")
