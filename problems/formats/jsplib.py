"""Reading job shops from text: the standard format of OR-Library and JSPLIB, and Taillard's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from problems.formats.job_shop import FIELDS, LARGEST_COUNT, LARGEST_TOTAL, JsspInstance, check_size, shop_of_lists
from problems.formats.text import error, lines, number, short, stem

TITLE = "nb of jobs, nb of machines, time seed, machine seed, upper bound, lower bound"  # of Taillard's own files

Row = tuple[int, list[str]]  # line number and words of a line


def read_jssp(path: str | Path) -> list[JsspInstance]:
    """The instances in a file; lines that begin with # are remarks.

    Several instances each begin with the title of Taillard's files or, as in OR-Library's, with a line `instance NAME`,
    below which remarks may stand. Without such a NAME the file's own name is used, numbered if there are several.

    Standard format: `jobs machines`, then one row per job of pairs `machine time`, with machines from 0. Rows may
    differ in length, name a machine several times, and end with `-1 -1` [Da Col and Teppan 2022]. A third number behind
    the first two, with which some files state a makespan, is not used. The remark of the instance tells of both.
    Taillard's format: `jobs machines`, which his own four further numbers may follow, then one row of times per job,
    then one row of machines per job, from 1; headings as in his files may stand above the three parts.
    A makespan and one row of jobs per machine, a solution, may follow an instance in the standard format.
    The number of rows and of words in them tells the formats apart. Raises ValueError with file, line and rule for
    anything else.
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
    sure = titled or extended or headed
    body = body if sure else _without_solution(body, jobs, ops)
    narrow = sure or _has_narrow_rows(body, jobs, ops)
    try:
        times, machines = (_taillard if narrow else _standard)(path, body, jobs, ops)
    except ValueError as wrong:
        if sure or not narrow:
            raise
        rule = f"of {ops} numbers, rows are read as Taillard's format; in the standard format they have {2 * ops}"
        raise ValueError(f"{wrong} ({rule})") from None
    check_size(str(path), jobs=jobs, operations_of_the_longest=max(map(len, times)), fields=FIELDS)
    remark = "; ".join([*_remark_on_words(rows[0][1]), *_remark_on_jobs(machines, ops)])
    return shop_of_lists(name, times, machines, [0] * ops)._replace(first=int(narrow), remark=remark)


def _remark_on_words(words: list[str]) -> list[str]:
    if len(words) != 3:
        return []
    return [f"the third number of the first line, {short(words[2])}, is taken for a makespan and not used"]


def _remark_on_jobs(machines: list[list[int]], ops: int) -> list[str]:
    """On those of a general job shop: a cut row may have been meant to have more."""
    lengths, several = list(map(len, machines)), sum(len(set(row)) < len(row) for row in machines)
    if set(lengths) == {ops} and not several:
        return []
    repeated = f", {several} of {len(machines)} jobs visit a machine several times" if several else ""
    return [f"jobs have {min(lengths)} to {max(lengths)} operations{repeated}; if they should not, a row may be cut"]


def _sizes(path: Path, line: int, words: list[str]) -> tuple[int, int, bool]:
    """Jobs, machines, and whether the four further numbers of Taillard's files follow."""
    if len(words) not in (2, 3, 6):
        rule = "the first line must be `jobs machines` (in Taillard's files with four further numbers)"
        raise error(path, line, f"{rule}, got {short(' '.join(words))}")
    jobs, ops, *_ = [number(path, line, word, int, "a number of the first line") for word in words]
    if not (1 <= jobs <= LARGEST_COUNT and 1 <= ops <= LARGEST_COUNT):
        raise error(path, line, f"jobs and machines must be 1..{LARGEST_COUNT}, got {short(' '.join(words[:2]))}")
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


def _has_narrow_rows(rows: list[Row], jobs: int, ops: int) -> bool:
    """Whether the rows are Taillard's, of one number per operation, not of the standard's two."""
    widths = [len(words) for _, words in rows]
    return widths[:1] == [ops] and len(rows) != jobs and 2 * ops not in widths  # not a first row that is wrapped


def _without_solution(rows: list[Row], jobs: int, ops: int) -> list[Row]:
    """The rows without a makespan below them, alone or with the order of the jobs on each machine."""
    below = [words for _, words in rows[jobs:]]
    widths = list(map(len, below))
    whole = all(word.isdecimal() for words in below for word in words)
    return rows[:jobs] if whole and widths in ([1], [1] + [jobs] * ops) else rows


def _standard(path: Path, rows: list[Row], jobs: int, ops: int) -> tuple[list[list[int]], list[list[int]]]:
    """Times and machines of rows of pairs."""
    times, machines = [], []
    for line, words in _checked(path, rows, jobs, None, "pairs `machine time`"):
        if words[-2:] == ["-1", "-1"]:
            words = words[:-2]
        machines.append(_machines(path, line, words[0::2], ops, first=0))
        times.append(_times(path, line, words[1::2]))
    return times, machines


def _taillard(path: Path, rows: list[Row], jobs: int, ops: int) -> tuple[list[list[int]], list[list[int]]]:
    """The same of two matrices, one below the other."""
    rows = _checked(path, rows, 2 * jobs, ops, f"{ops} times, then of {ops} machines")
    times = [_times(path, line, words) for line, words in rows[:jobs]]
    return times, [_machines(path, line, words, ops, first=1) for line, words in rows[jobs:]]


def _checked(path: Path, rows: list[Row], count: int, width: int | None, what: str) -> list[Row]:
    """The rows, if there are `count` of `width` words each, None: of pairs. Nothing is allocated by these numbers."""
    for place, (line, words) in enumerate(rows, start=1):
        if place > count:
            raise error(path, line, f"nothing may follow the {count} rows, got {short(' '.join(words))}")
        if width is None and len(words) % 2:
            raise error(path, line, f"row {place} has {len(words)} numbers, {what} expected")
        if width is not None and len(words) != width:
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


def _machines(path: Path, line: int, words: Sequence[str], ops: int, first: int) -> list[int]:
    """The machines of a job, counted from 0, of a file that counts them from `first`."""
    machines = [number(path, line, word, int, "a machine") - first for word in words]
    for machine, word in zip(machines, words, strict=True):
        if 0 <= machine < ops:
            continue
        # All are within the range that counts from the other number.
        shifted = all(0 <= each + 2 * first - 1 < ops for each in machines)
        hint = f"; this file seems to count them from {1 - first}" if shifted else ""
        raise error(path, line, f"machines are {first}..{ops - 1 + first} here, got {short(word)}{hint}")
    return machines


def _says(words: list[str], text: str) -> bool:
    return " ".join(words).lower() == text
