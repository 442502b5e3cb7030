"""What each problem registers of its own, found by the problem's name."""

from __future__ import annotations

import contextlib
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class Registry(dict[str, T]):
    """Entries by the name of their problem; any module may add one.

    Arguments:
        kind: of the entries, in words
        module: the problems of this project add their entry in problems/<name>/<module>.py, which is imported when
            the entry is asked for
    """

    def __init__(self, kind: str, module: str):
        super().__init__()
        self.kind, self.module = kind, module

    def of(self, problem: str) -> T:
        """The entry of a problem; raises ValueError if there is none."""
        if problem not in self:
            with contextlib.suppress(ModuleNotFoundError):  # a problem of somebody else
                import_module(f"problems.{problem}.{self.module}")
        if problem not in self:
            raise ValueError(f"there is no {self.kind} for problem {problem}; see docs/add-a-problem.md")
        return self[problem]
