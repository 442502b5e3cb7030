"""What a run tells while it works, and how it is asked to end: a time limit, Ctrl-C or a termination signal."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

Stop = Callable[[], bool]  # whether the run should end
Progress = Callable[[str, int, int], None]  # (phase, done, total)


def silent(phase: str, done: int, total: int) -> None:
    """The progress that nobody listens to."""


def never() -> bool:
    """The stop that nobody asks for."""
    return False


class Stopped(Exception):
    """The run was asked to end in the middle of an epoch.

    Arguments:
        metrics: of what was done of the phase that is cut short
        batches: trained in it
    """

    def __init__(self, metrics: Mapping[str, float] | None = None, batches: int = 0):
        super().__init__()
        self.metrics, self.batches = metrics or {}, batches


class Stopper:
    """Callable that turns True once the run should end. The second Ctrl-C ends it at once, as usual.

    Arguments:
        time_limit: seconds from now; None: no limit
    """

    def __init__(self, time_limit: float | None = None):
        if time_limit is not None and not time_limit > 0:
            raise ValueError(f"time_limit must be positive seconds, got {time_limit}")
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.reason: str | None = None
        self.signalled = False

    def __call__(self) -> bool:
        if self.reason is None and self.deadline is not None and time.monotonic() >= self.deadline:
            self.reason = "time limit reached"
        return self.reason is not None

    def seconds_left(self) -> float:
        """Seconds until the time limit; infinite without one."""
        return math.inf if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def __enter__(self) -> Stopper:
        self._before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _) -> None:
        if self.signalled:
            raise KeyboardInterrupt
        self.signalled = True
        self.reason = self.reason or ("interrupted" if number == signal.SIGINT else "terminated")


@contextmanager
def interruptible() -> Iterator[None]:
    """A termination signal raises KeyboardInterrupt, as Ctrl-C does; the next signal ends the process at once.

    Nothing more than its kind is known of the exception: Ray replaces it by its own.
    """
    signals = signal.SIGINT, signal.SIGTERM

    def interrupt(*_) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
