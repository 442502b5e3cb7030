"""The search methods, and what wraps them: equivalent instances inside, a time limit outside.

A method is a dataclass with its settings as fields; an object of it is called with a `SearchTask`. A new method is one
new file (docs/add-a-search-method.md).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gumbeldore.sampler.methods.anytime import Anytime
from gumbeldore.sampler.methods.beam import Beam, Greedy
from gumbeldore.sampler.methods.diverse_beam import DiverseBeam
from gumbeldore.sampler.methods.equivalents import Equivalents
from gumbeldore.sampler.methods.method import Improving, Method, Rounds
from gumbeldore.sampler.methods.reconstruct import Reconstruct
from gumbeldore.sampler.methods.rejection import Rejection
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
    "Improving",
    "Method",
    "Reconstruct",
    "Rejection",
    "Rounds",
    "Sampling",
    "Tasar",
    "Theory",
    "WithoutReplacement",
    "DEFAULTS",
    "METHODS",
    "made",
    "named",
    "settings_of",
]

METHODS: dict[str, type[Improving]] = {
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
}


# Of every setting of a method; one that several methods have has one default.
DEFAULTS: dict[str, Any] = {
    field.name: field.default
    for method in METHODS.values()
    for field in dataclasses.fields(method)
    if field.default is not dataclasses.MISSING
} | {"start": "greedy", "equivalents": 1}


def settings_of(method: Callable[..., Method], start: str | None = None) -> set[str]:
    """The names of the settings that a method reads: its own, those of its start, and of what may wrap it.

    Arguments:
        start: of a method that has one; None: its default
    """
    own = set(inspect.signature(method).parameters)
    if "start" in own:
        own |= set(inspect.signature(named(start or DEFAULTS["start"])).parameters)
    return own | {"equivalents"} | ({"time_limit"} if getattr(method, "endless", True) else set())


def named(name: Any) -> type[Improving]:
    """The method of this name. Raises ValueError that lists all of them if there is none."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"the search method must be one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]


def made(method: Callable[..., Method], settings: Mapping[str, Any]) -> Method:
    """A method with those of the settings that it reads, equivalent instances and a time limit included; None: default.

    Raises ValueError for a value out of range, and for a time limit if the method ends by itself.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    read = inspect.signature(method).parameters
    own = {name: value for name, value in settings.items() if name in read}
    equivalents, limit = settings.get("equivalents", 1), settings.get("time_limit")
    if "start" in read and "start" in own:  # its equivalents are searched, and not its pieces
        own["start"] = made(named(own["start"]), {**settings, "time_limit": None})
        equivalents = 1
    built = method(**own)
    if equivalents != 1:
        if not isinstance(built, Rounds):
            raise ValueError(f"equivalents are for a method of rounds, got {type(built).__name__}")
        built = Equivalents(built, equivalents)
    if limit is None:
        return built
    if not isinstance(built, Improving):
        raise ValueError(f"a time_limit is for a method that can go on, got {type(built).__name__}")
    return Anytime(built, limit)
