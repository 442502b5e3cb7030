"""Work that is done while this process does something else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gumbeldore.stopping import Progress, Stop


class Ahead:
    """`work(progress, stop)`, begun now if it is other processes that do it, and waited for by `result`.

    Whoever leaves the context before asking for the result stops the work.

    Arguments:
        work: None if there is nothing to do; the result is None, too
        elsewhere: whether other processes do it: a thread of this one waits for them. Otherwise `result` does it
        progress: told how far the work has come while `result` waits
    """

    def __init__(self, work: Callable[[Progress, Stop], Any] | None, elsewhere: bool, progress: Progress, stop: Stop):
        self.work, self.progress, self.stop = work, progress, stop
        self.awaited = self.cancelled = False
        self.thread = ThreadPoolExecutor(1)  # which starts with its first work
        self.future = self.thread.submit(work, self._tell, self._stop) if work and elsewhere else None

    def result(self) -> Any:
        """What the work returns or raises."""
        self.awaited = True
        if self.future:
            return self.future.result()
        return self.work(self._tell, self._stop) if self.work else None

    def _tell(self, phase: str, done: int, total: int) -> None:
        if self.awaited:
            self.progress(phase, done, total)

    def _stop(self) -> bool:
        return self.cancelled or self.stop()

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_) -> None:
        self.cancelled = True
        self.thread.shutdown()
