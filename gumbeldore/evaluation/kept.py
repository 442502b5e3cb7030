"""What an evaluation keeps in its out_dir so that the same command can go on after it was stopped or killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from gumbeldore.evaluation.parts import Parts
from gumbeldore.instance_set import InstanceSet
from gumbeldore.runtime.arrays import regular
from gumbeldore.runtime.files import remove_leftovers, write_text
from gumbeldore.runtime.folder_lock import lock

MANIFEST = Path("progress", "manifest.json")
# Keys of an evaluation that change no solution, or whose content is compared instead; and those of solvers, which look
# again for what they have not found.
MAY_CHANGE = (
    *("checkpoint", "instances", "num_instances", "references", "out_dir", "resume", "workers", "ray.address"),
    *(f"{prefix}solver.{key}" for prefix in ("", "methods.") for key in ("workers", "threads", "time_limit")),
)


class Kept:
    """The finished parts below an out_dir, which one process has at a time, until the `with` block ends.

    Arguments:
        manifest: all that decides the results, as plain values
        resume: whether to go on with what is there

    Raises ValueError if another process has the folder, or it holds parts that are not to be, or cannot be, gone on
    with: the error names what has changed.
    """

    def __init__(self, out_dir: Path, manifest: dict[str, Any], resume: bool):
        path = out_dir / MANIFEST
        self.folder = path.parent
        self.folder.mkdir(parents=True, exist_ok=True)
        self._locked = lock(self.folder, "out_dir")
        for found in self.folder.rglob("*"):
            if not found.is_dir():
                regular(found)
        self._opened: list[Parts] = []
        text = json.dumps(manifest, indent=2)
        self._new = not path.exists()
        if not self._new:
            if not resume:
                raise ValueError(f"out_dir={out_dir} holds results already; choose another")
            _check_same(path, json.loads(text), out_dir)
            remove_leftovers(out_dir)
        else:
            write_text(path, text)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, kind: type | None, *_) -> None:
        """If an error has come before anything was found, nothing is left behind."""
        failed = kind is not None and issubclass(kind, Exception)
        values = [path for path in self.folder.glob("*.json") if path.name != MANIFEST.name]
        if failed and self._new and not self.finished() and not values:
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # the folder above is the user's if there is more in it
                self.folder.parent.rmdir()
        self._locked.close()

    def parts(self, *names: str | int) -> Parts:
        """The finished parts of a method on an instance set, however the two are named."""
        folder = self.folder / _name_of(names)
        if folder.is_dir():
            remove_leftovers(folder)
        found = Parts(folder)
        self._opened.append(found)
        return found

    def value(self, compute: Callable[[], Any], *names: object) -> Any:
        """What `compute` has returned, as plain values; it is called once for these names."""
        path = self.folder / f"{_name_of(names)}.json"
        with contextlib.suppress(OSError, ValueError, RecursionError):  # not there, or damaged
            return json.loads(path.read_bytes())
        found = compute()
        write_text(path, json.dumps(found))
        return found

    def finished(self) -> int:
        """How many searches of an instance are finished."""
        return sum(map(len, self._opened))


def _name_of(names: tuple) -> str:
    return hashlib.sha256(repr(names).encode()).hexdigest()[:16]


def _check_same(path: Path, wanted: dict[str, Any], out_dir: Path) -> None:
    try:
        begun = json.loads(path.read_bytes())
        if not isinstance(begun, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged, so {out_dir} cannot be gone on with; choose another out_dir") from None
    for key in [*begun, *wanted]:
        if key not in MAY_CHANGE and begun.get(key) != wanted.get(key):
            was, now = (str(values.get(key, "nothing")) for values in (begun, wanted))
            change = f"{key} was {was:.60} and is {now:.60} now"
            raise ValueError(f"out_dir={out_dir} cannot be gone on with: {change}; choose another out_dir")


def fingerprint(instance_sets: list[InstanceSet]) -> str:
    """A hash of the names and the content of all instances."""
    digest = hashlib.sha256()
    for instance_set in instance_sets:
        for value in (instance_set.names, *instance_set.instances, *instance_set.originals):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, Tensor):
                    digest.update(f"{part.dtype} {list(part.shape)};".encode() + part.contiguous().numpy().tobytes())
                else:
                    digest.update(f"{part!r};".encode())
    return digest.hexdigest()
