"""Commands in processes that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import torch

import evaluate
import train
from tests.helpers.commands import ROOT

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
