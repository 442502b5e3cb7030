"""What every process does before it computes on a GPU; tests/test_gpu.py asks one."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.parallel.devices import resolve_device
from gumbeldore.parallel.pool import Worker
from gumbeldore.runtime.gpu import use_device
from models.bq_tsp import BQ
from problems.tsp import TSP
from tests.pretended import GPU, pretended_gpu


def worker(device: torch.device) -> Worker:
    policy = BQ(16, 1, 2, 32, canonical_coordinates=False, successor_loss=0)
    return Worker(TSP(6), policy, str(device), "float32", 1, False)


@pytest.mark.parametrize("set_up", [use_device, lambda device: resolve_device(str(device)), worker])
def test_attention_does_not_wait_for_plans_of_cudnn(set_up, monkeypatch):
    chosen = []
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        set_up(torch.device("cpu"))
        assert torch.backends.cuda.cudnn_sdp_enabled()
        with pretended_gpu():
            monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
            set_up(GPU)
        assert not torch.backends.cuda.cudnn_sdp_enabled() and chosen == [GPU]
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
