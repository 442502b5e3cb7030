"""Damage to files: what a bad disk, a torn copy, an editor or ill will does to them, decided by a seed."""

from __future__ import annotations

import io
import os
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ODD = [b"-1", b"0", b"1", b"5", b"11", b"2.5", b"1.0", b"nan", b"1e3", b"1e400", b"1_0", b"9" * 30, b"9" * 5000]
ODD += [b"\n", b"\r", b" ", b":", b"#", b"\xff", b"\x00"]


def damaged(data: bytes, seed: int) -> bytes:
    """The data after one to three changes; now and then they undo each other."""
    draw = random.Random(seed)
    for _ in range(draw.randint(1, 3)):
        data = draw.choice(CHANGES)(data, draw)
    return data


def outcomes(
    original: bytes, seeds: range, path: Path, read: Callable[[Path], Any], check: Callable[[bytes, Any], None]
) -> Counter:
    """How many damaged files `read` refuses in one line that names the file, and how many it reads.

    Arguments:
        check: called with the damaged data and what was read of it; raises AssertionError if that is not in it
    """
    counts = Counter()
    for seed in seeds:
        data = damaged(original, seed)
        path.write_bytes(data)
        try:
            found = read(path)
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error), f"seed {seed}: {error}"
            assert data != original, f"seed {seed}"
            counts["refused"] += 1
        else:
            check(data, found)
            counts["read"] += 1
    return counts


def _truncate(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randint(0, len(data))]


def _flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 4]) if data else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _block(data: bytes, draw: random.Random) -> bytes:
    """A block of bytes cut out, doubled, moved, set to zero, or replaced or preceded by others."""
    first = draw.randint(0, len(data))
    last = min(len(data), first + draw.choice([1, 2, 8, 64, 512]))
    block, size = data[first:last], draw.randint(1, 8)
    new = draw.choice([b"", 2 * block, bytes(len(block)), draw.randbytes(size), draw.randbytes(size) + block, None])
    if new is None:
        rest = data[:first] + data[last:]
        place = draw.randint(0, len(rest))
        return rest[:place] + block + rest[place:]
    return data[:first] + new + data[last:]


def _word_or_line(data: bytes, draw: random.Random) -> bytes:
    """A word or a line cut out, doubled, exchanged with the next, replaced or preceded by another."""
    parts = re.split(draw.choice([rb"(?<=\n)", rb"(\s+)"]), data)
    place = draw.randrange(len(parts))
    here = parts[place : place + 1]
    other = [draw.choice([*ODD, *data.split(), *data.splitlines(keepends=True)])]
    width, new = draw.choice([(1, []), (1, 2 * here), (2, parts[place + 1 : place + 2] + here), (1, other), (0, other)])
    parts[place : place + width] = new
    return b"".join(parts)


CHANGES = [_truncate, _flip, _block, _word_or_line, _word_or_line, _word_or_line]


# ---- checkpoints made with ill will


def repacked(body: bytes, change, compression=zipfile.ZIP_STORED) -> bytes:
    """The records of a checkpoint, changed by name and put together again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as old, zipfile.ZipFile(buffer, "w", compression) as new:
        for name in old.namelist():
            for key, value in change(name, old.read(name)).items():
                new.writestr(key, value)
    return buffer.getvalue()


class Trap:
    """What a pickle runs when it is read."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)
