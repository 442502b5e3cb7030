"""The processes that share a batch, as one of them sees the others: its rows, the mean over all, the end for all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gumbeldore.training.state import TrainState

TO_MEET = timedelta(minutes=5)  # until all processes have started
TO_SAMPLE = timedelta(days=365)  # the others wait while the first one samples and validates; a death ends that at once


class SingleProcess:
    """One process trains."""

    rank = 0

    def start_epoch(self, train_state: TrainState) -> None:
        pass

    def rows(self, batch_size: int) -> slice:
        return slice(0, batch_size)

    def wrap(self, network: nn.Module) -> nn.Module:
        return network

    def broadcast_stop(self, stop: bool) -> bool:
        return stop

    def mean(self, values: Tensor) -> Tensor:
        return values

    def __enter__(self) -> SingleProcess:
        return self

    def __exit__(self, *_) -> None:
        pass


SINGLE_PROCESS = SingleProcess()


class DDPRank:
    """One of several processes that train together, as it sees the others."""

    def __init__(self, rank: int, size: int, port: int, device: str, threads: int):
        gpu = torch.device(device) if device.startswith("cuda") else None
        address = f"tcp://127.0.0.1:{port}"
        dist.init_process_group(
            "nccl" if gpu else "gloo",
            init_method=address,
            timeout=TO_MEET,
            rank=rank,
            world_size=size,
            device_id=gpu,
        )
        torch.set_num_threads(threads)
        self.rank, self.size = rank, size
        self.words = dist.new_group(backend="gloo", timeout=TO_SAMPLE)  # what they tell each other besides gradients
        self.replica: nn.Module | None = None

    def start_epoch(self, train_state: TrainState) -> None:
        pass  # the launcher says when

    def rows(self, batch_size: int) -> slice:
        part = batch_size // self.size
        return slice(self.rank * part, (self.rank + 1) * part)

    def wrap(self, network: nn.Module) -> nn.Module:
        # Anew each epoch, as in a continued run: after its first step a replica adds up gradients in another order,
        # which rounds otherwise among three or more. The old one first, so that its hooks are gone.
        self.replica = None
        self.replica = nn.parallel.DistributedDataParallel(network)
        return self.replica

    def broadcast_stop(self, stop: bool) -> bool:
        word = torch.tensor([stop])
        dist.broadcast(word, 0, group=self.words)
        return bool(word)

    def mean(self, values: Tensor) -> Tensor:
        dist.all_reduce(values)
        return values / self.size

    def broadcast(self, message: Any = None) -> Any:
        """What the first process says, to all of them."""
        box = [message]
        dist.broadcast_object_list(box, 0, group=self.words)
        return box[0]

    def __enter__(self) -> DDPRank:
        return self

    def __exit__(self, *_) -> None:
        dist.destroy_process_group()
