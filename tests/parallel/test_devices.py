"""How many workers, threads and rows `auto` means."""

from __future__ import annotations

import torch

from gumbeldore.parallel import ray_cluster as cluster
from gumbeldore.parallel.devices import CPU_BATCH_ROWS, resolve_rows, resolve_threads, resolve_workers


def test_workers():
    cpu = torch.device("cpu")
    assert resolve_workers("auto", cpu, 1) >= 1 and resolve_workers("auto", cpu, 10_000) == 1


def test_trainer_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.setattr(cluster, "available_cores", lambda: 8)
    assert [resolve_threads("auto", processes) for processes in (1, 2, 3, 9)] == [6, 4, 2, 1]
    assert resolve_threads(3, 2) == 3


def test_chunk_rows():
    cpu = torch.device("cpu")
    assert resolve_rows("auto", cpu) == CPU_BATCH_ROWS < resolve_rows("auto", torch.device("cuda:0"))
    assert resolve_rows(7, cpu) == 7


def test_one_gpu_needs_no_actor(monkeypatch):
    gpu = torch.device("cuda")
    for gpus, joined, expected in ((1, False, 0), (2, False, 2), (1, True, 1)):
        monkeypatch.setattr(cluster, "gpus", lambda gpus=gpus: gpus)
        monkeypatch.setattr(cluster, "joined", lambda joined=joined: joined)
        assert resolve_workers("auto", gpu, 1) == expected
        assert resolve_workers("auto", torch.device("cuda:0"), 1) == 0
