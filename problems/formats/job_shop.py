"""The job shop as its files give it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from problems.formats.npz import LARGEST_NUMBER

LARGEST_TOTAL = 10**12  # of all times of an instance: 99 times any start time is exact in int64 and in float64
LARGEST_COUNT = 10**6  # of jobs and of machines
MOST_NUMBERS = 10**8  # in memory: 0.8 GB
FIELDS = 4  # of JsspInstance, with a number for each place of an operation
NO_OPERATION = -1  # the machine of a place behind the last operation of a job
NOT_FIXED = -LARGEST_NUMBER  # stands where an operation has no fixed start

Row = Sequence[int] | np.ndarray


class JsspInstance(NamedTuple):
    """J jobs of at most O operations on M machines; all arrays int64."""

    name: str
    times: np.ndarray  # [J, O] processing times, in the order of each job's operations
    machines: np.ndarray  # [J, O] in 0..M-1, NO_OPERATION where a job has none
    release: np.ndarray  # [J] no operation of the job starts before
    machine_release: np.ndarray  # [M] no operation starts on the machine before
    waits: np.ndarray  # [J, O] from the end of an operation to the start of its job's next one at least
    due: np.ndarray  # [J] when the job should have ended
    weight: np.ndarray  # [J] what a unit of time later costs; 0: no due date
    fixed: np.ndarray  # [J, O] start of an operation that has one already, else NOT_FIXED
    first: int = 0  # the number of the first machine and of the first job in the file
    remark: str = ""  # what was assumed of the file

    @property
    def is_changed(self) -> bool:
        """Whether releases, waits or fixed operations make it another instance than the published one."""
        return bool(
            self.release.any() or self.machine_release.any() or self.waits.any() or (self.fixed > NOT_FIXED).any()
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {name: value for name, value in self._asdict().items() if isinstance(value, np.ndarray)}


def check_size(where: str, **counts: int) -> None:
    """Raises ValueError that begins with `where` if a shop takes too many numbers, before these take memory.

    Arguments:
        counts: by what is counted; there is a number for each combination. In memory, each job has as many places for
            operations as the longest one
    """
    if math.prod(counts.values()) > MOST_NUMBERS:
        product = " x ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
        raise ValueError(f"{where}: {product} are {math.prod(counts.values())} numbers, at most {MOST_NUMBERS} fit")


def shop_of_lists(
    name: str,
    times: Sequence[Row] | np.ndarray,
    machines: Sequence[Row] | np.ndarray,
    machine_release: Row,
    release: Row | None = None,
    waits: Sequence[Row] = (),
    fixed: Sequence[Row] = (),
    due: Row | None = None,
    weight: Row | None = None,
) -> JsspInstance:
    """An instance of a row per job, rows of any lengths. What is not given is 0, and nothing is fixed."""
    longest = max(1, *map(len, times))

    def padded(rows: Sequence[Row] | np.ndarray, fill: int) -> np.ndarray:
        filled = np.full((len(times), longest), fill, dtype=np.int64)
        for place, row in enumerate(rows):
            filled[place, : len(row)] = row
        return filled

    def of_jobs(row: Row | None) -> np.ndarray:
        return np.zeros(len(times), dtype=np.int64) if row is None else np.array(row, dtype=np.int64)

    return JsspInstance(
        name,
        padded(times, 0),
        padded(machines, NO_OPERATION),
        of_jobs(release),
        np.array(machine_release, dtype=np.int64),
        padded(waits, 0),
        of_jobs(due),
        of_jobs(weight),
        padded(fixed, NOT_FIXED),
    )
