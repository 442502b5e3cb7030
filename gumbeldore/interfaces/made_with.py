"""Objects that keep the arguments that they were made with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class RecordsArguments:
    """Classes whose objects keep the arguments that each was made with in `made_with`: `save_policy` writes them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def recorded(self: Any, *arguments: Any, **named: Any) -> None:
        self.__dict__.setdefault("made_with", (arguments, named))  # the subclass comes first, which calls its base
        init(self, *arguments, **named)

    return recorded
