"""Runs and evaluations that end before their time."""

from __future__ import annotations

import os
import signal

from gumbeldore.evaluation.parts import Parts
from gumbeldore.training.dataset import PseudoExperts


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
