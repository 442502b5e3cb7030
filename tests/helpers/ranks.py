"""Several processes that train together, as torchrun starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from unittest.mock import patch

from gumbeldore.training.ranks import joined_ranks
from problems.tsp import TSP
from tests.helpers.commands import ROOT, run

PROGRAM = str(ROOT / "train.py")


def torchrun(size, *words, cwd):
    """The command of a training with so many processes."""
    return run("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}", PROGRAM, *words, cwd=cwd)


@contextmanager
def together(size):
    """This process as the first of so many, which is spared a start, and the others, processes of their own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"TORCHELASTIC_RUN_ID": "test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": size}
    first, *more = ({key: str(value) for key, value in {**common, "RANK": rank}.items()} for rank in range(size))
    others = [subprocess.Popen([sys.executable, PROGRAM], env={**os.environ, **variables}) for variables in more]
    try:
        with patch.dict(os.environ, first), joined_ranks() as ranks:
            yield ranks, others
        for process in others:
            process.wait(60)
    finally:
        for process in others:
            process.kill()


class FailsElsewhere(TSP):
    """Instances that cannot be augmented but by the first process."""

    def augment(self, *arguments):
        if os.environ.get("RANK", "0") != "0":
            raise RuntimeError("there is no such shard")
        return super().augment(*arguments)


class Spoiled(TSP):
    """The last instance of the third batch is NaN: with two processes it is the second's."""

    batches = 0

    def augment(self, instance, *arguments):
        self.batches += 1
        if self.batches == 3:
            instance.coords[-1] = float("nan")
        return super().augment(instance, *arguments)
