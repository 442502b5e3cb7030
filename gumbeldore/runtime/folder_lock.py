"""One process per folder: a lock that the system lets go of when the process ends, however it ends."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from gumbeldore.runtime.arrays import regular
from gumbeldore.runtime.files import write_errors


def lock(folder: Path, key: str) -> BinaryIO:
    """The file `lock` of a folder, held until it is closed.

    Arguments:
        key: that names the folder on the command line

    Raises ValueError if another process holds it, or the system or the file system has no such locks.
    """
    try:
        import fcntl
    except ImportError:
        raise ValueError(f"{folder} cannot be locked: gumbeldore runs on Linux and macOS only") from None
    with write_errors(folder / "lock"):
        held = open(regular(folder / "lock"), "ab")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise ValueError(f"{folder} is in use by another run; wait for its end, or choose another {key}") from None
    except OSError as error:
        held.close()
        rule = f"its file system has no locks ({error.strerror})"
        raise ValueError(
            f"{folder} cannot be locked: {rule}; choose a {key} on another, such as a local disk"
        ) from None
    return held
