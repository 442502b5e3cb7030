"""Data-parallel training: every batch is shared out among processes, and torch's DDP averages their gradients.

All processes draw the same batches and take their own rows of them, so that only gradients travel. This process is
the first; the others follow it epoch by epoch.
"""

from __future__ import annotations

import copy
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.gpu import use_device
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import dtype_of
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.seeding import generator
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.execution import Execution
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.ranks import DDPRank
from gumbeldore.training.settings import ImitationSettings
from gumbeldore.training.state import TrainState

Fit = Callable[..., Any]
SECONDS_TO_DIE = 5  # between a connection that closes and the end of the process that closed it


class DDPTask(NamedTuple):
    """What a further process is started with."""

    problem: Problem
    policy: Policy
    settings: ImitationSettings
    seed: int
    precision: str
    compiled: bool
    devices: list[str]
    threads: int  # of each process
    dataset: Path
    instance_type: type
    fit: Fit


class DDPLauncher(DDPRank):
    """The first process, which starts the others and ends them.

    Arguments:
        task: devices has one entry per process, this one's first; the batch size is a multiple of their number

    Raises WorkerError, also when it ends, if another process failed.
    """

    def __init__(self, task: DDPTask):
        size = len(task.devices)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        spawn = torch.multiprocessing.get_context("spawn")
        self.processes, self.reports = [], []
        for rank in range(1, size):
            report, to_report = spawn.Pipe(duplex=False)
            process = spawn.Process(target=_follow, args=(rank, port, task, to_report), daemon=True)
            process.start()
            to_report.close()
            self.processes.append(process)
            self.reports.append(report)
        try:
            super().__init__(0, size, port, task.devices[0], task.threads)
        except BaseException as error:  # a second Ctrl-C, too: nothing else would end the others
            self._end(error)
            if not isinstance(error, RuntimeError):
                raise
            raise WorkerError(f"the {size} training processes did not start: {error}") from error
        self.told = False

    def start_epoch(self, train_state: TrainState) -> None:
        """Let the other ranks train the next epoch, too; the first time they get the weights."""
        message = {"epoch": train_state.epoch, "dataset": [shard.name for shard in train_state.dataset.shards]}
        if not self.told:
            state = {"policy": train_state.policy.state_dict(), "optimizer": train_state.optimizer.state_dict()}
            message |= tree_map_only(Tensor, Tensor.cpu, state)  # or they would arrive on this process's GPU
            self.told = True
        self.broadcast(message)

    def __exit__(self, *error) -> None:
        reason = error[1]
        if reason is None:
            try:
                self.broadcast(None)
            except RuntimeError as lost:
                reason = lost
        try:
            self._end(reason)
        finally:
            super().__exit__(*error)

    def _end(self, reason: BaseException | None) -> None:
        """See the others off, which were told to end unless there is a reason; WorkerError if one of them failed."""
        if isinstance(reason, RuntimeError):  # of a connection, perhaps: whoever closed it is about to die
            wait(self.reports, SECONDS_TO_DIE)
        if reason is not None:
            failed = self._failed()
            for process in self.processes:
                process.kill()
        for process in self.processes:
            process.join()
        if reason is None:
            failed = self._failed()
        if failed:
            raise WorkerError(f"training process {failed[0]}") from reason

    def _failed(self) -> list[str]:
        """Which of the others have ended otherwise than asked to, and how: they have reported, or can no longer."""
        found = []
        for rank, (process, report) in enumerate(zip(self.processes, self.reports, strict=True), 1):
            if process.exitcode != 0 and report.poll():
                try:
                    how = f"failed: {report.recv()}"
                except EOFError:
                    how = "died"
                found.append(f"{rank} of {1 + len(self.processes)} {how}")
        return found


def _follow(rank: int, port: int, task: DDPTask, report: Connection) -> None:
    """The life of a further process; what ends it too early is printed, and its last line reported."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the first process, which ends the others
        signal.signal(number, signal.SIG_IGN)
    try:
        _train_along(rank, port, task)
    except Exception as error:
        traceback.print_exc()
        report.send(f"{type(error).__name__}: {error}".splitlines()[0])
        raise SystemExit(1) from None


def _train_along(rank: int, port: int, task: DDPTask) -> None:
    """The same epochs on its own rows."""
    keep_freed_memory()
    device = torch.device(task.devices[rank])
    use_device(device)
    policy = copy.deepcopy(task.policy).to(device)  # torch sends CPU tensors as memory that both processes share
    if task.compiled:
        compile_layers(policy)
    optimizer = optimizer_of(policy, task.settings, dtype_of(task.precision))
    train_state = TrainState(policy, policy, optimizer, PseudoExperts(task.dataset))
    with DDPRank(rank, len(task.devices), port, task.devices[rank], task.threads) as member:
        while (message := member.broadcast()) is not None:
            if "policy" in message:
                train_state.policy.load_state_dict(message["policy"])
                train_state.optimizer.load_state_dict(message["optimizer"])
            train_state.epoch = message["epoch"]
            train_state.dataset.restore(message["dataset"], task.instance_type)
            draws = generator(task.seed, "batches", train_state.epoch)
            execution = Execution(device=device, precision=task.precision, ddp=member)
            with suppress(Stopped):
                task.fit(task.problem, train_state, task.settings, draws, execution)
