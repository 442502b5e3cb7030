"""The search methods, and what wraps them: equivalent instances inside, a time limit outside.

A method is a dataclass with its settings as fields; an object of it is called with a `SearchTask`. A new method is one
new file (docs/extend.md#a-search-method).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gumbeldore.runtime.checked import is_integer
from gumbeldore.sampler.methods.anytime import Anytime
from gumbeldore.sampler.methods.beam import Beam
from gumbeldore.sampler.methods.diverse_beam import DiverseBeam
from gumbeldore.sampler.methods.equivalents import Equivalents
from gumbeldore.sampler.methods.greedy import Greedy
from gumbeldore.sampler.methods.improvement import Improvement
from gumbeldore.sampler.methods.local_search import LocalSearch
from gumbeldore.sampler.methods.method import Method, Rounds, Timed
from gumbeldore.sampler.methods.reconstruct import Reconstruct
from gumbeldore.sampler.methods.rejection import Rejection
from gumbeldore.sampler.methods.rules import Rules
from gumbeldore.sampler.methods.sampling import Sampling
from gumbeldore.sampler.methods.tasar import Tasar
from gumbeldore.sampler.methods.without_replacement import Gumbeldore, Theory, WithoutReplacement

__all__ = [
    "Anytime",
    "Beam",
    "DiverseBeam",
    "Equivalents",
    "Greedy",
    "Gumbeldore",
    "Improvement",
    "LocalSearch",
    "Method",
    "Reconstruct",
    "Rejection",
    "Rounds",
    "Rules",
    "Sampling",
    "Tasar",
    "Theory",
    "Timed",
    "WithoutReplacement",
    "DEFAULTS",
    "METHODS",
    "STARTS",
    "made",
    "settings_of",
]

METHODS: dict[str, type[Timed]] = {
    "greedy": Greedy,
    "sampling": Sampling,
    "rejection": Rejection,
    "beam": Beam,
    "diverse_beam": DiverseBeam,
    "wor": WithoutReplacement,
    "tasar": Tasar,
    "gumbeldore": Gumbeldore,
    "theory": Theory,
    "reconstruct": Reconstruct,
    "local_search": LocalSearch,
}
# Of an improvement.
STARTS: dict[str, type[Rounds]] = {name: x for name, x in METHODS.items() if issubclass(x, Rounds)} | {"rules": Rules}
# Of every setting of a method; one that several methods have has one default.
DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for method in METHODS.values()
    for field in dataclasses.fields(method)
    if field.default is not dataclasses.MISSING
} | {"start": "greedy", "equivalents": 1}


def settings_of(method: Callable[..., Method], start: str | None = None, timed: bool = False) -> set[str]:
    """The names of the settings that a method reads: its own, those of its start, and of what may wrap it.

    Arguments:
        start: of a method that has one; None: its default
        timed: whether a time limit wraps it, so that a greedy solution comes first
    """
    own = set(inspect.signature(method).parameters)
    if "start" in own:
        own |= set(inspect.signature(_start(DEFAULTS["start"] if start is None else start)).parameters)
    if getattr(method, "endless", True):
        own |= {"time_limit"} | (set(inspect.signature(Greedy).parameters) if timed else set())
    return own | {"equivalents"}


def _start(name: Any) -> type[Rounds]:
    """The start of this name. Raises ValueError that lists all of them if there is none."""
    if not isinstance(name, str) or name not in STARTS:
        raise ValueError(f"start must be one of {', '.join(STARTS)}, got {name!r}")
    return STARTS[name]


def made(method: Callable[..., Method], settings: Mapping[str, Any]) -> Method:
    """A method with those of the settings that it reads, equivalent instances and a time limit included; None: default.

    Raises ValueError for a value out of range, and for a time limit if the method ends by itself.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    read = inspect.signature(method).parameters
    own = {name: value for name, value in settings.items() if name in read}
    others = {name: value for name, value in settings.items() if name not in read}
    if "start" in own:  # its equivalents are searched, and not its pieces
        own["start"] = made(_start(own["start"]), {**settings, "time_limit": None})
        others.pop("equivalents", None)
    built: Any = method(**own)
    if "equivalents" in others and not (is_integer(others["equivalents"]) and others["equivalents"] == 1):
        built = Equivalents(built, others["equivalents"])
    if "time_limit" not in others:
        return built
    greedy = Greedy(**{name: others[name] for name in inspect.signature(Greedy).parameters if name in others})
    return Anytime(built, others["time_limit"], greedy)
