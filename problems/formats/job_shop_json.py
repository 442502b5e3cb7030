"""Reading job shops with releases, waits and fixed operations, which no other format has, from JSON (docs/data.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from problems.formats.job_shop import FIELDS, LARGEST_COUNT, NOT_FIXED, JsspInstance, check_size, shop_of_lists
from problems.formats.npz import LARGEST_NUMBER
from problems.formats.text import error, short, stem, text_of

SHOP = {"machines", "jobs", "machine_release"}
JOB = {"operations", "release", "due", "weight"}
OPERATION = {"machine", "time", "wait", "start"}
REMARKS = {"name", "id", "remark", "comment", "description", "metadata"}  # ignored at any level
FLEXIBLE = "flexible shops have no JSON here; problem=fjsp takes .fjs files and arrays (docs/data.md)"
SOLVERS = "{} are not supported here; PyJobShop and OR-Tools' CP-SAT can do them"
CALENDARS = "calendars are not supported; `machine_release` says from when on a machine is free"
DEADLINES = "hard deadlines are not supported; `due` of a job is what problem.objective=weighted_tardiness counts"
INSTEAD = {  # by a part of the key that other programs give it: what there is here
    **dict.fromkeys(("deadline", "latest"), DEADLINES),
    **dict.fromkeys(("break", "calendar", "shift", "maintenance", "availab"), CALENDARS),
    **dict.fromkeys(("setup", "famil"), SOLVERS.format("setup times")),
    **dict.fromkeys(("block", "buffer"), SOLVERS.format("blocking and buffers")),
    **dict.fromkeys(("no_wait", "nowait"), SOLVERS.format("jobs that must not wait")),
    "batch": SOLVERS.format("batches"),
    **dict.fromkeys(("transport", "travel"), "transport is the `wait` of the operation before it"),
    **dict.fromkeys(("mode", "alternative", "eligible"), FLEXIBLE),
    **dict.fromkeys(("release", "ready", "arrival", "earliest"), "`release` of a job says from when on it can start"),
    **dict.fromkeys(("duration", "process"), "`time` of an operation is how long it takes"),
    "due": "`due` of a job is when it should have ended",
    "priority": "`weight` of a job is what a unit of time later costs",
}


def read_json(path: str | Path) -> list[JsspInstance]:
    """The instance in a file. A value `null` is as if the key were not there, and names and remarks are ignored.

    Raises ValueError that names the file and the place in it for anything else, and for keys of other programs what is
    there instead.
    """
    path = Path(path)
    text = text_of(path)
    try:
        shop = json.loads(text, object_pairs_hook=_object, parse_int=_number)
    except (ValueError, RecursionError) as wrong:
        raise error(path, None, f"this cannot be read as JSON: {wrong}") from None
    _check_keys(path, "the shop", shop, SHOP, {"machines", "jobs"})
    if isinstance(shop["machines"], list):
        keys = [key for each in shop["machines"] if isinstance(each, dict) for key in each]
        answer = next(filter(None, map(_answer, keys)), CALENDARS)
        raise error(path, None, f"machines must be how many there are, got a list: {answer}")
    count = _whole(path, "machines", shop["machines"])
    if not 1 <= count <= LARGEST_COUNT:
        raise error(path, None, f"machines must be 1..{LARGEST_COUNT}, got {count}")
    released = _whole_list(path, "machine_release", shop.get("machine_release", [0] * count), count)
    if not isinstance(shop["jobs"], list) or not shop["jobs"]:
        raise error(path, None, f"jobs must be a list of jobs, got {_shown(shop['jobs'])}")
    release, due, weight, rows = [], [], [], []
    for place, job in enumerate(shop["jobs"]):
        where = f"job {place}"
        operations = job.get("operations") if isinstance(job, dict) else job
        if isinstance(operations, list) and any(map(_is_flexible, operations)):
            raise error(path, None, f"{where}: {FLEXIBLE}")
        _check_keys(path, where, job, JOB, {"operations"})
        release.append(_whole(path, f"{where}: release", job.get("release", 0)))
        due.append(_whole(path, f"{where}: due", job.get("due", 0)))
        weight.append(_whole(path, f"{where}: weight", job.get("weight", int("due" in job))))
        if weight[-1] and "due" not in job:
            raise error(path, None, f"{where}: it has a weight, and no due date (due)")
        if not isinstance(operations, list):
            raise error(path, None, f"{where}: operations must be a list, got {_shown(operations)}")
        rows.append([_operation(path, f"{where}, operation {o}", each) for o, each in enumerate(operations)])
    check_size(str(path), jobs=len(rows), operations_of_the_longest=max(map(len, rows)), fields=FIELDS)
    times, machines, waits, fixed = ([[each[field] for each in row] for row in rows] for field in range(4))
    return [shop_of_lists(stem(path), times, machines, released, release, waits, fixed, due, weight)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without null and remarks, unless a key comes twice: Python would take the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"a key comes twice in one object: {next(short(key) for key in keys if keys.count(key) > 1)}")
    return {key: value for key, value in found.items() if value is not None and key not in REMARKS}


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 30 else LARGEST_NUMBER  # far beyond what is allowed


def _operation(path: Path, where: str, operation: Any) -> tuple[int, ...]:
    """Time, machine, wait and fixed start."""
    _check_keys(path, where, operation, OPERATION, {"machine", "time"})
    missing = {"wait": 0, "start": NOT_FIXED}
    names = ("time", "machine", "wait", "start")
    time, machine, wait, start = (
        _whole(path, f"{where}: {name}", operation[name]) if name in operation else missing[name] for name in names
    )
    if machine < 0:
        raise error(path, None, f"{where}: machine must be at least 0, got {machine}")
    return time, machine, wait, start


def _is_flexible(operation: Any) -> bool:
    """Whether an operation lists several machines, as other programs write it."""
    if isinstance(operation, dict):
        return isinstance(operation.get("machine"), list) or "machines" in operation
    return isinstance(operation, list) and any(isinstance(each, (dict, list)) for each in operation)


def _check_keys(path: Path, where: str, found: Any, known: set[str], required: set[str]) -> None:
    if not isinstance(found, dict):
        raise error(path, None, f"{where}: it must be an object with {', '.join(sorted(known))}, got {_shown(found)}")
    for key in found:
        if key not in known:
            answer = _answer(key) or f"known are {', '.join(sorted(known))}"
            raise error(path, None, f"{where}: unknown key {short(key)}: {answer}")
    if lacking := required - set(found):
        raise error(path, None, f"{where}: it lacks {', '.join(sorted(lacking))}")


def _answer(key: str) -> str | None:
    """What is there instead of a key of other programs."""
    plain = key.lower().replace("-", "_").replace(" ", "_")
    return next((answer for part, answer in INSTEAD.items() if part in plain), None)


def _shown(value: Any) -> str:
    """A value as the file has it, in messages."""
    return short(json.dumps(value))


def _whole(path: Path, where: str, value: Any) -> int:
    is_whole = isinstance(value, int) and not isinstance(value, bool) or isinstance(value, float) and value.is_integer()
    if not is_whole or abs(value) >= LARGEST_NUMBER:
        raise error(path, None, f"{where} must be a whole number below {LARGEST_NUMBER:g}, got {_shown(value)}")
    return int(value)


def _whole_list(path: Path, where: str, values: Any, count: int) -> list[int]:
    if not isinstance(values, list) or len(values) != count:
        raise error(path, None, f"{where} must be a list of {count} numbers, got {_shown(values)}")
    return [_whole(path, f"{where}[{place}]", value) for place, value in enumerate(values)]
