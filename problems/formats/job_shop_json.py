"""Reading job shops with releases, waits and fixed operations, which no other format has, from JSON (docs/data.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from problems.formats.job_shop import LARGEST_COUNT, NOT_FIXED, JsspInstance, shop_of_lists
from problems.formats.npz import LARGEST_NUMBER
from problems.formats.text import error, short, stem, text_of

SHOP = {"machines", "jobs", "machine_release"}
JOB = {"operations", "release", "due", "weight"}
OPERATION = {"machine", "time", "wait", "start"}
FLEXIBLE = "flexible machines"
NOT_SUPPORTED = {  # by the key that other programs give it
    "modes": FLEXIBLE,
    "alternatives": FLEXIBLE,
    "calendar": "calendars",
    "breaks": "calendars",
    "blocking": "blocking",
    "buffer": "blocking",
    "setup": "setup times",
}


def read_json(path: str | Path) -> list[JsspInstance]:
    """The instance in a file. Raises ValueError that names the file and the place in it for anything else."""
    path = Path(path)
    text = text_of(path)
    try:
        shop = json.loads(text, object_pairs_hook=_without_twins, parse_int=_number)
    except (ValueError, RecursionError) as wrong:
        raise error(path, None, f"this cannot be read as JSON: {wrong}") from None
    _check_keys(path, "the shop", shop, SHOP, {"machines", "jobs"})
    count = _whole(path, "machines", shop["machines"])
    if not 1 <= count <= LARGEST_COUNT:
        raise error(path, None, f"machines must be 1..{LARGEST_COUNT}, got {count}")
    released = _whole_list(path, "machine_release", shop.get("machine_release", [0] * count), count)
    if not isinstance(shop["jobs"], list) or not shop["jobs"]:
        raise error(path, None, f"jobs must be a list of jobs, got {short(str(shop['jobs']))}")
    release, due, weight, rows = [], [], [], []
    for place, job in enumerate(shop["jobs"]):
        where = f"job {place}"
        _check_keys(path, where, job, JOB, {"operations"})
        release.append(_whole(path, f"{where}: release", job.get("release", 0)))
        due.append(_whole(path, f"{where}: due", job.get("due", 0)))
        weight.append(_whole(path, f"{where}: weight", job.get("weight", int("due" in job))))
        if weight[-1] and "due" not in job:
            raise error(path, None, f"{where}: it has a weight, and no due date (due)")
        if not isinstance(job["operations"], list):
            raise error(path, None, f"{where}: operations must be a list, got {short(str(job['operations']))}")
        rows.append([_operation(path, f"{where}, operation {o}", each) for o, each in enumerate(job["operations"])])
    times, machines, waits, fixed = ([[each[field] for each in row] for row in rows] for field in range(4))
    return [shop_of_lists(stem(path), times, machines, released, release, waits, fixed, due, weight)]


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless a key comes twice: Python would take the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"a key comes twice in one object: {next(short(key) for key in keys if keys.count(key) > 1)}")
    return found


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 30 else LARGEST_NUMBER  # far beyond what is allowed


def _operation(path: Path, where: str, operation: Any) -> tuple[int, ...]:
    """Time, machine, wait and fixed start."""
    _check_keys(path, where, operation, OPERATION, {"machine", "time"})
    if isinstance(operation["machine"], list):
        raise error(path, None, f"{where}: {_not_supported('flexible machines')}")
    missing = {"wait": 0, "start": NOT_FIXED}
    names = ("time", "machine", "wait", "start")
    time, machine, wait, start = (
        _whole(path, f"{where}: {name}", operation[name]) if name in operation else missing[name] for name in names
    )
    if machine < 0:
        raise error(path, None, f"{where}: machine must be at least 0, got {machine}")
    return time, machine, wait, start


def _check_keys(path: Path, where: str, found: Any, known: set[str], required: set[str]) -> None:
    if not isinstance(found, dict):
        raise error(
            path, None, f"{where}: it must be an object with {', '.join(sorted(known))}, got {short(str(found))}"
        )
    for key in found:
        if key not in known:
            more = f": {_not_supported(NOT_SUPPORTED[key])}" if key in NOT_SUPPORTED else ""
            raise error(path, None, f"{where}: unknown key {short(key)}; known are {', '.join(sorted(known))}{more}")
    if lacking := required - set(found):
        raise error(path, None, f"{where}: it lacks {', '.join(sorted(lacking))}")


def _not_supported(what: str) -> str:
    if what == FLEXIBLE:
        return f"{what} are a problem of their own, problem=fjsp, which takes .fjs files and arrays (docs/data.md)"
    return f"{what} are not supported here; PyJobShop and OR-Tools' CP-SAT can do them"


def _whole(path: Path, where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= LARGEST_NUMBER:
        raise error(path, None, f"{where} must be a whole number below {LARGEST_NUMBER:g}, got {short(str(value))}")
    return value


def _whole_list(path: Path, where: str, values: Any, count: int) -> list[int]:
    if not isinstance(values, list) or len(values) != count:
        raise error(path, None, f"{where} must be a list of {count} numbers, got {short(str(values))}")
    return [_whole(path, f"{where}[{place}]", value) for place, value in enumerate(values)]
