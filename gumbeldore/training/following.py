"""The life of a process that torchrun has started, and that is not the first: it trains what the first one trains."""

from __future__ import annotations

import contextlib
import os
import signal

import torch

from gumbeldore.runtime.compiling import compile_layers
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.gpu import use_device
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import dtype_of
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.ranks import DDPRanks, Run
from gumbeldore.training.state import TrainState


def follow(ranks: DDPRanks) -> None:
    """Train the same epochs as the first process, on this process's own rows, until the first process ends.

    It reads the shards that the first process has written, and writes nothing.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the first process, which ends the others
        signal.signal(number, signal.SIG_IGN)
    keep_freed_memory()
    with contextlib.suppress(WorkerError):  # the first one says what there is to say
        while (message := ranks.broadcast()) is not None:
            if isinstance(message, Run):
                run = message
                state, execution = begun(run, ranks)
                continue
            state.epoch = message.number
            shards = message.shards
            state.dataset.restore(shards["dataset"], message.instance_type, shards["checksums"])
            draws = torch.Generator()
            draws.set_state(message.draws)
            with contextlib.suppress(Stopped):
                fit(run.problem, state, run.settings, draws, execution)


def begun(run: Run, ranks: DDPRanks) -> tuple[TrainState, Execution]:
    """The state that training begins with, on the device of this process."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if run.device == "cuda" else torch.device("cpu")
    use_device(device)
    torch.set_num_threads(run.threads)
    policy = run.policy.to(device)
    if run.compiled:
        compile_layers(policy)
    optimizer = optimizer_of(policy, run.settings, dtype_of(run.precision))
    optimizer.load_state_dict(run.optimizer)
    state = TrainState(policy, policy, optimizer, PseudoExperts(run.dataset))
    return state, Execution(device=device, precision=run.precision, ranks=ranks)
