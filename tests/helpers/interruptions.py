"""Runs and evaluations that end before their time, in this process or in one that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import torch

import evaluate
import train
from gumbeldore.evaluation.parts import Parts
from gumbeldore.training.dataset import PseudoExperts
from tests.helpers.commands import ROOT


def interrupted_after(patch, parts: int, number: int = signal.SIGINT) -> None:
    """Ctrl-C, or another signal, as soon as so many parts are kept."""
    add, count = Parts.add, 0

    def counted(self, *arguments):
        nonlocal count
        add(self, *arguments)
        count += 1
        if count == parts:
            os.kill(os.getpid(), number)

    patch.setattr(Parts, "add", counted)


class Killed(BaseException):
    """Nothing catches it."""


def dies_after(monkeypatch, batches):
    """Let the next run die while it trains, once it has drawn so many minibatches."""
    draw, drawn = PseudoExperts.batch, []

    def batch(self, *args):
        drawn.append(None)
        if len(drawn) > batches:
            raise Killed
        return draw(self, *args)

    monkeypatch.setattr(PseudoExperts, "batch", batch)


PROGRAMS = {"train": train, "evaluate": evaluate}
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])  # what a start of Python takes is spent once


def killed_after(program: str, words: list[str], folder: Path, seconds: float | None = None) -> int:
    """The exit status of a command that is killed after so many seconds, if it has not ended before."""
    process = FORKS.Process(target=_main, args=(program, words, folder))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode


def _main(program: str, words: list[str], folder: Path) -> None:
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(ROOT)  # for Ray's workers
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    torch.set_num_threads(1)
    sys.argv = [f"{program}.py", *words]
    PROGRAMS[program].main()
