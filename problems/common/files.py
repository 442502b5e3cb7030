"""Instances in files of the benchmark libraries, one file or a folder of them, and what is known of their solutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from gumbeldore.instance_set import InstanceSet, TooFewError, WrongProblemError
from problems.formats.text import MAKE_NPZ, lines, stem, unpacked

OF_OTHER_PROGRAMS = {".csv", ".tsv", ".xml", ".yaml", ".xls", ".xlsx", ".ods", ".md"}


class Reference(NamedTuple):
    """What is known of the best solution of an instance."""

    cost: float = float("nan")  # NaN: nothing
    kind: str = ""
    actions: Tensor | None = None  # [T], None where only the cost is known
    warnings: tuple[str, ...] = ()  # what could not be used, and why


class Library(ABC):
    """A format of benchmark files."""

    title: ClassVar[str]  # in messages
    suffixes: ClassVar[tuple[str, ...]]  # of the files taken from a folder, in small letters

    @abstractmethod
    def read(self, path: Path) -> list:
        """The instances in a file, NamedTuples with a `name`. Raises ValueError that names the file if it is wrong."""

    @abstractmethod
    def size(self, instance: Any) -> Any:
        """The size of an instance, by which instances are grouped into InstanceSets."""

    @abstractmethod
    def reference(self, path: Path, instance: Any) -> Reference:
        """What is known of an instance of a file."""

    @abstractmethod
    def of_files(self, instances: list, costs: np.ndarray, kinds: list[str]) -> InstanceSet:
        """An InstanceSet of n instances of one size, as files give them, with their reference costs and kinds."""


def taken(limit: int | None, available: int, source: str, hint: str = "; num_instances=null takes all") -> int:
    """How many instances to take. Raises TooFewError, with the hint, if there are not as many."""
    if limit is not None and not 1 <= limit <= available:
        allowed = f"between 1 and {available} can be taken, not {limit}"
        raise (ValueError if limit < 1 else TooFewError)(f"{source} has {available} instances, {allowed}{hint}")
    return available if limit is None else limit


def load_files(path: Path, limit: int | None, library: Library) -> list[InstanceSet]:
    """The first `limit` instances of a file, or of the files of a folder, one InstanceSet per size.

    Of a folder those files that cannot be used are left out. The first InstanceSet says which and why (`left_out`), and
    what else went wrong (`warnings`). Raises ValueError if nothing is left, and for a file that cannot be used.
    """
    left_out: dict[str, str] = {}
    found = _of_folder(path, limit, library, left_out) if path.is_dir() else _of_file(path, library)
    found = found[: taken(limit, len(found), str(path))]
    names, warnings = _names(found)

    by_size: dict[Any, list[tuple[Any, Reference]]] = {}
    for (file, instance), name in zip(found, names, strict=True):
        reference = library.reference(file, instance)
        warnings += reference.warnings
        by_size.setdefault(library.size(instance), []).append((instance._replace(name=name), reference))

    instance_sets = []
    for _, group in sorted(by_size.items()):
        costs, kinds = [reference.cost for _, reference in group], [reference.kind for _, reference in group]
        instance_set = library.of_files([instance for instance, _ in group], np.array(costs), kinds)
        known = {place: each.actions for place, (_, each) in enumerate(group) if each.actions is not None}
        instance_sets.append(instance_set._replace(solutions=known))
    instance_sets[0] = instance_sets[0]._replace(warnings=warnings + instance_sets[0].warnings, left_out=left_out)
    return instance_sets


def _of_file(path: Path, library: Library) -> list[tuple[Path, Any]]:
    try:
        return [(path, instance) for instance in library.read(path)]
    except ValueError as error:
        suffix = suffix_of(path)
        if suffix and suffix in library.suffixes:
            raise
        if suffix in OF_OTHER_PROGRAMS:
            lines(path)  # has its own words for what is no text
            rule = f"{suffix} is no format of instances (docs/data.md lists these)"
            remedy = f"give a file in one of them its suffix, else {MAKE_NPZ.format(name=stem(path))}"
            raise ValueError(f"{path}: {rule}: {remedy}") from None
        raise WrongProblemError(str(error)) from None


def _of_folder(folder: Path, limit: int | None, library: Library, left_out: dict[str, str]) -> list[tuple[Path, Any]]:
    """The files and their instances, `limit` at least if there are so many; `left_out` gets the reasons of others."""
    paths = [path for path in sorted(folder.iterdir()) if suffix_of(path) in library.suffixes and not path.is_dir()]
    found: list[tuple[Path, Any]] = []
    for path in paths:
        if limit is not None and 0 < limit <= len(found):
            break
        try:
            if path.name.startswith("."):
                raise ValueError("a hidden file")
            found += [(path, instance) for instance in library.read(path)]
        except ValueError as error:
            left_out[path.name] = str(error).removeprefix(str(path)).lstrip(":, ")
        except OSError as error:
            left_out[path.name] = error.strerror or str(error)
    kinds = ", ".join(f"*{suffix}" if suffix else "files without a suffix" for suffix in library.suffixes)
    if not paths:
        raise WrongProblemError(f"there are no files {folder}/{kinds}")
    if not found:
        file, reason = next(iter(left_out.items()))
        raise ValueError(f"none of the files {folder}/{kinds} can be used ({len(left_out)}): {file}: {reason}")
    return found


def suffix_of(path: Path) -> str:
    """The suffix in small letters, without `.gz` behind it; "." for a hidden file without one."""
    suffix = unpacked(path).suffix.lower()
    return suffix or ("." if path.name.startswith(".") else "")


def _names(found: list[tuple[Path, Any]]) -> tuple[list[str], list[str]]:
    """Names [n] that differ: the instances' own, else those of their files; and a warning if these are needed."""
    names = [instance.name for _, instance in found]
    counts = Counter(names)
    if len(counts) == len(names):
        return names, []
    twice = next(name for name, count in counts.items() if count > 1)
    for other in (stem, lambda path: path.name):
        counts = Counter(names)
        names = [other(path) if counts[name] > 1 else name for (path, _), name in zip(found, names, strict=True)]
    counts = Counter(names)
    names = [f"{name}/{place}" if counts[name] > 1 else name for place, name in enumerate(names)]
    return names, [f"several instances have the name {twice}: they are told apart by the names of their files"]


def beside(path: Path, suffix: str) -> Path | None:
    """The file that is called like an instance's file, but has another suffix (small or capital, perhaps packed)."""
    base = unpacked(path)
    names = [base.with_suffix(each + packed) for each in (suffix, suffix.upper()) for packed in ("", ".gz")]
    return next((name for name in names if name.is_file()), None)
