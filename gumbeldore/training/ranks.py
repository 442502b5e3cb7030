"""The processes of torchrun, which share each batch, as one of them sees the others.

All processes draw the same batches and take their own rows of them, so that only gradients travel: torch's DDP averages
them. The first process samples, validates and writes. It tells the others what they train (`Run`, `Epoch`).
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.nn  # before any group: defaults of its functions would keep a group and its threads
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.training.settings import ImitationSettings
from gumbeldore.training.state import TrainState

TO_SAMPLE = timedelta(days=365)  # the others wait while the first one samples; torchrun ends them if it dies
# Groups of processes in which an error came up; they stay, for its traceback may hold a replica. If a replica had the
# last reference to its group, torch would wait for the group's threads with Python's lock, for which these may wait.
FAILED: list[Any] = []
LOST = ("Connection closed", "Connection reset", "Broken pipe", "NCCL")  # what torch says where a process is gone


class Run(NamedTuple):
    """What all processes train, with the weights and the optimiser's state that they begin with, on the CPU."""

    problem: Problem
    policy: Policy
    optimizer: list[dict[str, Any]]
    settings: ImitationSettings
    dataset: Path | None  # the folder of the shards
    device: str  # cpu or cuda
    precision: str
    compiled: bool
    threads: int  # of each process


class Epoch(NamedTuple):
    """An epoch that all processes train."""

    number: int
    shards: dict[str, Any]  # as `PseudoExperts.state_dict` has them
    instance_type: type
    draws: Tensor  # state of the generator


@contextlib.contextmanager
def lost_processes() -> Iterator[None]:
    """Raises WorkerError where another process is gone."""
    try:
        yield
    except RuntimeError as error:
        if any(words in str(error) for words in LOST):
            raise WorkerError("another training process is gone: its own error, or torchrun's, says why") from error
        raise


class Ranks:
    """The processes that train together, as one of them sees the others; here this one is alone."""

    rank, size = 0, 1

    def start_run(
        self, problem: Problem, state: TrainState, settings: ImitationSettings, precision: str, compiled: bool
    ) -> None:
        """Let the other processes begin what the first process is about to train."""

    def start_epoch(self, state: TrainState, draws: torch.Generator) -> None:
        """Let the other processes train the next epoch, too."""

    def rows(self, batch_size: int) -> slice:
        """This process's rows of each batch."""
        return slice(0, batch_size)

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network whose gradients are means over all processes."""
        return network

    def broadcast_stop(self, stop: bool) -> bool:
        """Whether the first process is to stop."""
        return stop

    def mean(self, values: Tensor) -> Tensor:
        """The means of values over all processes."""
        return values


SINGLE_PROCESS = Ranks()


class DDPRanks(Ranks):
    """Several processes of torchrun; the first has rank 0."""

    def __init__(self) -> None:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TO_SAMPLE)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.replica: nn.Module | None = None

    def start_run(
        self, problem: Problem, state: TrainState, settings: ImitationSettings, precision: str, compiled: bool
    ) -> None:
        self.broadcast(
            Run(
                problem=problem,
                policy=copy.deepcopy(state.policy).cpu(),  # a tensor on a GPU would arrive on the GPU of this process
                optimizer=tree_map_only(Tensor, Tensor.cpu, state.optimizer.state_dict()),
                settings=settings,
                dataset=state.dataset.folder,
                device=next(state.policy.parameters()).device.type,
                precision=precision,
                compiled=compiled,
                threads=torch.get_num_threads(),
            )
        )

    def start_epoch(self, state: TrainState, draws: torch.Generator) -> None:
        if self.rank == 0:
            shards, kind = state.dataset.state_dict(), type(state.dataset.shards[0].instances)
            self.broadcast(Epoch(state.epoch, shards, kind, draws.get_state()))

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
        dist.broadcast(word, 0)
        return bool(word)

    def mean(self, values: Tensor) -> Tensor:
        dist.all_reduce(values)
        return values / self.size

    @lost_processes()
    def broadcast(self, message: Any = None) -> Any:
        """Send a message from the first process to all; returns it. Raises WorkerError if one of them is gone."""
        box = [message]
        dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
        return box[0]


@contextlib.contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """This process among those that torchrun has started; without torchrun it is alone.

    At the end the first process tells the others to end. If it fails, they lose their connection to it.
    """
    if not dist.is_torchelastic_launched() or os.environ["WORLD_SIZE"] == "1":
        yield SINGLE_PROCESS
        return
    ranks = DDPRanks()
    try:
        yield ranks
        if ranks.rank == 0:
            with contextlib.suppress(WorkerError):  # torchrun ends this process because one is gone
                ranks.broadcast(None)
        ranks.replica = None
    except BaseException:
        FAILED.append(dist.group.WORLD)
        raise
    finally:
        dist.destroy_process_group()
