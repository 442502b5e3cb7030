"""How much of an instance a policy sees."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from gumbeldore.runtime.checked import is_integer

V = TypeVar("V")


@dataclass(frozen=True)
class ViewBySize(Generic[V]):
    """What is in view; in evaluations the size of the instance decides, if the user says nothing."""

    usual: V
    large: V
    is_said: bool  # by the user
    least: float = math.inf  # nodes or operations: of instances of this size or above, `large` is in view

    def from_size(self, least: int) -> ViewBySize[V]:
        """The view for evaluations, where so large instances are large."""
        return self if self.is_said else replace(self, least=least)

    def of(self, size: int) -> V:
        return self.large if self.is_reduced(size) else self.usual

    def is_reduced(self, size: int) -> bool:
        return size >= self.least


def check_view(name: str, value: int | str | None) -> int | None:
    """How much is in view; None for all of it. Raises ValueError that begins with `name` for other values."""
    if value is None or value == "all":
        return None
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name} must be at least 1, all or null, got {value}")
    return value
