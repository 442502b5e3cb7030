"""Answers on disk: no instance is solved twice by the same solver with the same options."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gumbeldore.runtime.files import atomic_write
from problems.solvers.answer import Answer, Options
from problems.solvers.backends import Backend

FORMAT = "2"  # counts the changes to what this package asks a solver or keeps of its answer


def key_of(problem: str, row: Any, backend: Backend, options: Options) -> str:
    """A name for what decides the answer: instance, solver, its version and its options."""
    digest = hashlib.sha256()
    threads = [options.threads] if backend.exact and options.threads > 1 else []  # so older answers, of one, are found
    decisive = [options.time_limit, options.seed, options.patience, *threads]
    for part in (FORMAT, problem, backend.package, backend.version(), *decisive):
        digest.update(f"{part!r};".encode())
    for field, value in row._asdict().items():
        if isinstance(value, Tensor):
            array = np.ascontiguousarray(value.numpy())
            digest.update(f"{field} {array.dtype} {array.shape};".encode() + array.tobytes())
        else:
            digest.update(f"{field} {value!r};".encode())
    return digest.hexdigest()


class Cache:
    """One small `.npz` per answer.

    Arguments:
        folder: made if it is not there; ValueError if it cannot be
    """

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError("no permission to write")
        except OSError as error:
            message = f"solutions cannot be kept in {folder} ({error}); set GUMBELDORE_CACHE to another folder"
            raise ValueError(message) from None

    def read(self, key: str) -> Answer | None:
        """The answer of that name; None if there is none or its file is damaged (it will be written anew)."""
        try:
            with open(self._path(key), "rb") as content, np.load(content, allow_pickle=False) as file:
                arrays = {field: file[field] for field in Answer._fields}
        except Exception:  # a damaged archive can fail in any part of zipfile, zlib or numpy
            return None
        actions = arrays.pop("actions")
        if actions.dtype != np.int64 or actions.ndim != 1 or any(value.ndim for value in arrays.values()):
            return None
        return Answer(actions, **{field: value.item() for field, value in arrays.items()})

    def write(self, key: str, answer: Answer) -> None:
        path = self._path(key)
        path.parent.mkdir(exist_ok=True)
        # Another process that has just written the same answer took the temporary file with it.
        with contextlib.suppress(FileNotFoundError), atomic_write(path) as file:
            np.savez(file, **answer._asdict())

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.npz"
