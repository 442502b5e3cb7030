"""Reading flexible job shops: the format of Brandimarte's and Hurink's instances, which most others have taken over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from problems.formats.job_shop import LARGEST_COUNT, LARGEST_TOTAL, Row, check_size
from problems.formats.npz import whole
from problems.formats.text import error, lines, number, short, stem

CANNOT = -1  # the time of an operation on a machine that cannot do it, and at places without an operation


class FjspInstance(NamedTuple):
    """J jobs of at most O operations on M machines; all arrays int64."""

    name: str
    times: np.ndarray  # [J, O, M] processing times, CANNOT where the machine cannot do the operation
    release: np.ndarray  # [J] no operation of the job starts before
    machine_release: np.ndarray  # [M] no operation starts on the machine before
    waits: np.ndarray  # [J, O] from the end of an operation to the start of its job's next one at least
    due: np.ndarray  # [J] when the job should have ended
    weight: np.ndarray  # [J] what a unit of time later costs; 0: no due date
    first: int = 0  # the number of the first machine and of the first job in the file

    @property
    def is_changed(self) -> bool:
        """Whether releases or waits make it another instance than the published one."""
        return bool(self.release.any() or self.machine_release.any() or self.waits.any())

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {name: value for name, value in self._asdict().items() if isinstance(value, np.ndarray)}


def shop_of_lists(
    name: str,
    jobs: Sequence[Sequence[Sequence[tuple[int, int]]]],
    machines: int,
    release: Row | None = None,
    machine_release: Row | None = None,
    due: Row | None = None,
    weight: Row | None = None,
) -> FjspInstance:
    """An instance of a list for each job, with a list for each operation, with (machine, time) for each machine.

    Machines count from 0. The other arguments have a number for each job or machine; 0 if not given, `weight` 1 if
    there are due dates. Raises ValueError that names job and operation for what is not well-formed.
    """
    longest = max((1, *map(len, jobs)))
    check_size(name, jobs=len(jobs), operations_of_the_longest=longest, fields=machines + 1)
    times = np.full((len(jobs), longest, machines), CANNOT, dtype=np.int64)
    for job, operations in enumerate(jobs):
        for op, alternatives in enumerate(operations):
            where = f"job {job}, operation {op}"
            try:
                pairs = np.array(alternatives)
            except ValueError:  # rows of several lengths
                pairs = np.empty(1)
            if not pairs.size:
                raise ValueError(f"{where} has no machine")
            if pairs.shape != (len(pairs) if pairs.ndim else 0, 2):
                raise ValueError(f"{where}: each machine must be (machine, time), got {alternatives}")
            for machine, time in whole(pairs, pairs.shape, f"{where}: (machine, time)").tolist():
                if not 0 <= machine < machines:
                    raise ValueError(f"{where}: machines are 0..{machines - 1} here, got {machine}")
                if time < 0:
                    raise ValueError(f"{where}: a time must be at least 0, got {time}")
                if times[job, op, machine] != CANNOT:
                    raise ValueError(f"{where}: machine {machine} comes twice")
                times[job, op, machine] = time

    def row(values: Row | None, count: int, what: str, fill: int = 0) -> np.ndarray:
        return np.full(count, fill) if values is None else whole(np.array(values), (count,), what)

    n = len(jobs)
    return FjspInstance(
        name,
        times,
        release=row(release, n, "release"),
        machine_release=row(machine_release, machines, "machine_release"),
        waits=np.zeros(times.shape[:2], dtype=np.int64),
        due=row(due, n, "due"),
        weight=row(weight, n, "weight", fill=int(due is not None)),
    )


def read_fjs(path: str | Path) -> list[FjspInstance]:
    """The instance in a file; lines that begin with # are remarks.

    `jobs machines`, which the mean number of machines of an operation may follow; then for each job the number of its
    operations, and for each of them the number of its machines and as many pairs `machine time`. Machines are counted
    from 1, or from 0 if there is a machine 0. A job may be wrapped over several lines. Raises ValueError with file,
    line and rule for anything else.
    """
    path = Path(path)
    rows = [(place, text.split()) for place, text in lines(path) if not text.startswith("#")]
    line, header = rows[0] if rows else (None, [])
    if len(header) not in (2, 3):
        rule = "the first line must be `jobs machines`, perhaps with the mean number of machines of an operation"
        raise error(path, line, f"{rule}, got {short(' '.join(header))}")
    count, machines = (number(path, line, word, int, "a number of the first line") for word in header[:2])
    if not (1 <= count <= LARGEST_COUNT and 1 <= machines <= LARGEST_COUNT):
        raise error(path, line, f"jobs and machines must be 1..{LARGEST_COUNT}, got {short(' '.join(header[:2]))}")
    words = _Words(path, [(place, word) for place, row in rows[1:] for word in row], f"of {count} jobs")
    jobs = [_job(words) for _ in range(count)]
    words.end()
    check_size(str(path), jobs=count, operations_of_the_longest=max(map(len, jobs)), fields=machines + 1)
    first = 0 if any(machine == 0 for job in jobs for op in job for machine, _, _ in op) else 1
    for line, found in [(op[0][1], [machine for machine, _, _ in op]) for job in jobs for op in job]:
        if wrong := next((machine for machine in found if not first <= machine < machines + first), None):
            raise error(path, line, f"machines are {first}..{machines - 1 + first} here, got {wrong}")
        if len(set(found)) < len(found):
            raise error(path, line, f"an operation has a machine twice, its machines are {short(str(found))}")
    counted = [[[(machine - first, time) for machine, _, time in op] for op in job] for job in jobs]
    return [shop_of_lists(stem(path), counted, machines)._replace(first=first)]


class _Words:
    """The numbers behind the first line, one after the other.

    Arguments:
        words: with their lines
        jobs: how many there are, in words; `begun` counts them
    """

    def __init__(self, path: Path, words: list[tuple[int, str]], jobs: str):
        self.path, self.words, self.jobs = path, words, jobs
        self.begun = self.place = self.line = 0

    def next(self, what: str, most: float = LARGEST_COUNT, least: int = 0) -> int:
        """The next number. Raises ValueError unless it is within least..most."""
        if self.place == len(self.words):
            raise error(self.path, None, f"the file ends before {what}, {self.begun - 1} {self.jobs} are complete")
        self.line, word = self.words[self.place]
        self.place += 1
        value = number(self.path, self.line, word, int, what)
        if not least <= value <= most:
            raise error(self.path, self.line, f"{what} must be {least}..{most:g}, got {short(word)}")
        return value

    def end(self) -> None:
        """Raises ValueError if numbers are left, with what these may be."""
        if self.place == len(self.words):
            return
        line, word = self.words[self.place]
        widths = list(Counter(line for line, _ in self.words[self.place :]).values())
        if line == self.line or len(set(widths)) > 1 or widths[0] != 2 and len(widths) % widths[0]:
            raise error(self.path, line, f"{short(word)} follows the last job; more operations or jobs than announced?")
        what = "precedence arcs" if widths[0] == 2 else "setup times"
        raise error(self.path, line, f"numbers follow the last job: {what} are not supported")


def _job(words: _Words) -> list[list[tuple[int, int, int]]]:
    """Machine, its line, and time of each alternative of each operation."""
    words.begun += 1
    return [
        [
            (words.next("a machine", LARGEST_TOTAL), words.line, words.next("a time", LARGEST_TOTAL))
            for _ in range(words.next("the number of an operation's machines", least=1))
        ]
        for _ in range(words.next("the number of a job's operations"))
    ]
