"""Reading files of the job shop scheduling problem: the standard format of OR-Library and JSPLIB, and Taillard's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from problems.formats.text import error, lines, number, short, stem

LARGEST_TOTAL = 10**12  # of all times of an instance: 99 times any start time is exact in int64 and in float64
LARGEST_COUNT = 10**6  # of jobs and of machines
TITLE = "nb of jobs, nb of machines, time seed, machine seed, upper bound, lower bound"  # of Taillard's own files

Row = tuple[int, list[str]]  # line number and words of a line


class JsspInstance(NamedTuple):
    name: str
    times: np.ndarray  # [J, M] int64 processing times >= 0, in the order of each job's operations
    machines: np.ndarray  # [J, M] int64, a permutation of 0..M-1 for each job
    first: int = 0  # the number of the first machine in the file
    remark: str = ""  # what was assumed of the file


def read_jssp(path: str | Path) -> list[JsspInstance]:
    """The instances in a file; lines that begin with # are remarks.

    Several instances each begin with the title of Taillard's files or, as in OR-Library's, with a line `instance NAME`,
    below which remarks may stand. Without such a NAME the file's own name is used, numbered if there are several.

    Standard format: `jobs machines`, then one row per job of pairs `machine time`, with machines from 0. A third number
    behind these two, with which some files state a makespan, is not used; the remark of the instance says so.
    Taillard's format: `jobs machines`, which his own four further numbers may follow, then one row of times per job,
    then one row of machines per job, from 1; headings as in his files may stand above the three parts.
    A makespan and one row of jobs per machine, a solution, may follow an instance in the standard format.
    The number of words in a row tells the formats apart. Raises ValueError with file, line and rule for anything else.
    """
    path = Path(path)
    parts = _parts(path, [(line, text.split()) for line, text in lines(path) if not text.startswith("#")])
    found = [_instance(path, *part) for part in parts]
    if len(found) == 1:
        return [found[0]._replace(name=found[0].name or stem(path))]
    return [x._replace(name=x.name or f"{stem(path)}/{place}") for place, x in enumerate(found, start=1)]


def _parts(path: Path, rows: list[Row]) -> list[tuple[str, bool, list[Row]]]:
    """The name (or ""), whether the title of Taillard's files stood above it, and the rows of each instance."""
    rows = [row for row in rows if any(word.strip("+") for word in row[1])]  # without OR-Library's lines of plus signs
    if rows and [word for word in rows[-1][1] if word.strip("+")] == ["EOF"]:  # and without its last line
        rows.pop()
    named = [place for place, (_, words) in enumerate(rows) if words[0].lower() == "instance" and len(words) == 2]
    titles = [place for place, (_, words) in enumerate(rows) if _says(words, TITLE)]
    starts = named or titles
    if not starts:
        return [("", False, rows)]
    if named and (unnamed := _without_remarks(rows[: named[0]])):
        raise error(path, unnamed[0][0], "an instance without a name above it; all or none must have `instance NAME`")
    parts = [(rows[i][1][1] if named else "", not named, rows[i + 1 : j]) for i, j in pairwise([*starts, len(rows)])]
    if named:
        return [(name, False, _without_remarks(part)) for name, _, part in parts]
    return [*([("", False, rows[: titles[0]])] if titles[0] else []), *parts]


def _without_remarks(rows: list[Row]) -> list[Row]:
    """The rows from `jobs machines` on."""
    for place, (_, words) in enumerate(rows):
        below = len(rows[place + 1][1]) if place + 1 < len(rows) else 0
        # Three numbers are a remark, unless a row of so many pairs follows.
        if all(map(str.isdecimal, words)) and (len(words) == 2 or len(words) == 3 and below == 2 * int(words[1])):
            return rows[place:]
    return []


def _instance(path: Path, name: str, titled: bool, rows: list[Row]) -> JsspInstance:
    """One instance of a file."""
    if not rows:
        raise error(path, None, f"there is no line `jobs machines`{f' of the instance {short(name)}' if name else ''}")
    jobs, ops, extended = _sizes(path, *rows[0])
    body, headed = _without_headings(path, rows[1:], jobs)
    if titled or extended or headed:
        times, machines, first = _taillard(path, body, jobs, ops)
    elif _has_narrow_rows(path, body, ops):
        try:
            times, machines, first = _taillard(path, body, jobs, ops)
        except ValueError as wrong:
            rule = f"of {ops} numbers, rows are read as Taillard's format; in the standard format they have {2 * ops}"
            raise ValueError(f"{wrong} ({rule})") from None
    else:
        times, machines, first = _standard(path, _without_solution(body, jobs, ops), jobs, ops)
    total = sum(map(sum, times))  # Python's integers, which cannot overflow
    if total > LARGEST_TOTAL:
        raise error(path, None, f"the times of all operations may add up to {LARGEST_TOTAL:g}, got {total:g}")
    remark = ""
    if len(rows[0][1]) == 3:
        remark = f"the third number of the first line, {short(rows[0][1][2])}, is taken for a makespan and not used"
    return JsspInstance(name, np.array(times, dtype=np.int64), np.array(machines, dtype=np.int64), first, remark)


def _sizes(path: Path, line: int, words: list[str]) -> tuple[int, int, bool]:
    """Jobs, machines, and whether the four further numbers of Taillard's files follow."""
    if len(words) not in (2, 3, 6):
        rule = "the first line must be `jobs machines` (in Taillard's files with four further numbers)"
        raise error(path, line, f"{rule}, got {short(' '.join(words))}")
    jobs, ops, *_ = [number(path, line, word, int, "a number of the first line") for word in words]
    if jobs < 1 or ops < 1 or jobs * ops < 2 or max(jobs, ops) > LARGEST_COUNT:
        rule = f"jobs and machines must be 1..{LARGEST_COUNT}, with two operations at least"
        raise error(path, line, f"{rule}, got {short(' '.join(words[:2]))}")
    return jobs, ops, len(words) == 6


def _without_headings(path: Path, rows: list[Row], jobs: int) -> tuple[list[Row], bool]:
    """The rows without the lines `Times` and `Machines`, and whether these were there."""
    headings = [(i, row) for i, row in enumerate(rows) if _says(row[1], "times") or _says(row[1], "machines")]
    if not headings:
        return rows, False
    expected = {0: "times", jobs + 1: "machines"}
    for i, (line, words) in headings:
        if i not in expected or not _says(words, expected[i]):
            rule = f"`Times` and `Machines` must stand above {jobs} rows each"
            raise error(path, line, f"{rule}, {short(words[0])} does not")
    if len(headings) != 2:
        raise error(path, None, f"`Times` and `Machines` must stand above {jobs} rows each, one is missing")
    return [row for i, row in enumerate(rows) if i not in expected], True


def _has_narrow_rows(path: Path, rows: list[Row], ops: int) -> bool:
    """Whether the first row is one of Taillard's, of one number per operation, not of the standard's two."""
    width = len(rows[0][1]) if rows else 2 * ops
    if width not in (ops, 2 * ops):
        rule = f"for {ops} machines a row has {2 * ops} numbers in the standard format and {ops} in Taillard's"
        raise error(path, rows[0][0], f"{rule}, got {width}")
    return width == ops and not any(len(words) == 2 * ops for _, words in rows)  # not a first row that is wrapped


def _without_solution(rows: list[Row], jobs: int, ops: int) -> list[Row]:
    """The rows without a makespan below them, alone or with the order of the jobs on each machine."""
    below = [words for _, words in rows[jobs:]]
    widths = list(map(len, below))
    whole = all(word.isdecimal() for words in below for word in words)
    return rows[:jobs] if whole and widths in ([1], [1] + [jobs] * ops) else rows


def _standard(path: Path, rows: list[Row], jobs: int, ops: int) -> tuple[list[list[int]], list[list[int]], int]:
    """Times, machines of rows of pairs, and the number of the first machine."""
    times, machines = [], []
    for line, words in _checked(path, rows, jobs, 2 * ops, f"{ops} pairs `machine time`"):
        machines.append(_order(path, line, words[0::2], first=0))
        times.append(_times(path, line, words[1::2]))
    return times, machines, 0


def _taillard(path: Path, rows: list[Row], jobs: int, ops: int) -> tuple[list[list[int]], list[list[int]], int]:
    """The same of two matrices, one below the other."""
    rows = _checked(path, rows, 2 * jobs, ops, f"{ops} times, then of {ops} machines")
    times = [_times(path, line, words) for line, words in rows[:jobs]]
    machines = [_order(path, line, words, first=1) for line, words in rows[jobs:]]
    return times, machines, 1


def _checked(path: Path, rows: list[Row], count: int, width: int, what: str) -> list[Row]:
    """The rows, if there are `count` of `width` words each. Nothing is allocated by these numbers before."""
    for place, (line, words) in enumerate(rows, start=1):
        if place > count:
            raise error(path, line, f"nothing may follow the {count} rows, got {short(' '.join(words))}")
        if len(words) != width:
            raise error(path, line, f"row {place} has {len(words)} numbers, {width} expected: {what}")
    if len(rows) < count:
        raise error(path, None, f"expected {count} rows of {what}, the file has {len(rows)}")
    return rows


def _times(path: Path, line: int, words: Sequence[str]) -> list[int]:
    times = [number(path, line, word, int, "a processing time") for word in words]
    for time, word in zip(times, words, strict=True):
        if not 0 <= time <= LARGEST_TOTAL:
            raise error(path, line, f"processing times must be 0..{LARGEST_TOTAL:g}, got {short(word)}")
    return times


def _order(path: Path, line: int, words: Sequence[str], first: int) -> list[int]:
    """The machines of a job, counted from 0, of a file that counts them from `first`."""
    machines = [number(path, line, word, int, "a machine") - first for word in words]
    ops, other = len(machines), 1 - first
    if sorted(machines) == list(range(ops)):
        return machines
    if sorted(machines) == list(range(other - first, other - first + ops)):
        raise error(path, line, f"machines are counted from {first} here; this file seems to count from {other}")
    for machine, word in zip(machines, words, strict=True):
        if not 0 <= machine < ops:
            raise error(path, line, f"machines are {first}..{ops - 1 + first} here, got {short(word)}")
    twice = next(machine for machine in machines if machines.count(machine) > 1)
    raise error(path, line, f"a job must visit each machine once, here it visits {twice + first} twice")


def _says(words: list[str], text: str) -> bool:
    return " ".join(words).lower() == text
