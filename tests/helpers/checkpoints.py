"""Checkpoints made with ill will."""

from __future__ import annotations

import io
import os
import zipfile


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
