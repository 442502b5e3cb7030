"""Files that are either whole or not there, and where those are that can be made again."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

SUFFIX = ".gumbeldore-tmp"  # of what a killed process may leave behind; no file of a user ends so
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how texts begin that a spreadsheet would compute


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the name `path` once it is complete and on the disk.

    If it cannot be completed, what is there under that name stays, and OSError names the file.
    """
    temporary = path.with_name(path.name + SUFFIX)
    with write_errors(path):
        temporary.unlink(missing_ok=True)
        try:
            with open(temporary, "xb") as file:  # no file, pipe or link of somebody's that has this name
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all, see `atomic_write`."""
    with atomic_write(path) as file:
        file.write(text.encode(errors="backslashreplace"))  # bytes of a file's name that are no UTF-8: \udcff


def as_cell(value: Any) -> Any:
    """The value as a `.csv` holds it: a text that a spreadsheet would compute has an apostrophe in front."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def write_table(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write a `.csv`, see `write_text` and `as_cell`."""
    text = io.StringIO()
    csv.writer(text).writerows(map(as_cell, row) for row in rows)
    write_text(path, text.getvalue())


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Errors of the system with the name of the file, which those of a full disk lack."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror or error}", str(path)) from None


def in_home(path: str | Path) -> Path:
    """The path, with the user's home folder for the `~` that it begins with; `~name` of no user stays as it is."""
    return Path(os.path.expanduser(path))


def cache_folder(name: str) -> Path:
    """`name` in $GUMBELDORE_CACHE, else in `gumbeldore` in the user's cache folder.

    Raises ValueError where the user has no home folder.
    """
    if own := os.environ.get("GUMBELDORE_CACHE"):
        return Path(own) / name
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if home.startswith("~"):
        raise ValueError("there is no home folder; set HOME, or GUMBELDORE_CACHE to the folder for what is kept")
    return Path(home) / "gumbeldore" / name


def remove_leftovers(folder: Path) -> None:
    """Delete what killed processes have left half-written in a folder."""
    for path in folder.glob(f"*{SUFFIX}"):
        path.unlink()
