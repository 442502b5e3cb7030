"""Checked values: one of the wrong kind or out of range is an error that names the key, the rule and the value.

The rule is an annotation (`int | None`), and for numbers and words the limits of a dataclass field.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

LARGEST = 2**63 - 1  # integer of a tensor


def is_integer(value: Any) -> bool:
    """Whether it is one, NumPy's included; true and false are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a finite one, NumPy's included; true and false are none."""
    return is_integer(value) or isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


class Kind(NamedTuple):
    """What an annotation stands for, and how messages call it."""

    holds: Callable[[Any], bool]
    one: str
    several: str


KINDS: dict[Any, Kind] = {
    int: Kind(is_integer, "an integer", "integers"),
    float: Kind(is_number, "a number", "numbers"),
    bool: Kind(lambda value: isinstance(value, bool), "true or false", "true and false"),
    str: Kind(lambda value: isinstance(value, str), "text", "texts"),
    list: Kind(lambda value: isinstance(value, (list, tuple)), "a list", "lists"),
    NoneType: Kind(lambda value: value is None, "null", "nulls"),
}


class Limits(NamedTuple):
    """The numbers and the words that are allowed; None or no words: all."""

    lowest: float | None = None
    above: float | None = None
    highest: float | None = None
    words: tuple[str, ...] = ()

    def hold(self, value: Any) -> bool:
        if isinstance(value, str):
            return not self.words or value in self.words
        if not is_number(value):
            return True
        low = (self.lowest is not None and value < self.lowest) or (self.above is not None and value <= self.above)
        return not low and (self.highest is None or value <= self.highest)

    def __str__(self) -> str:
        below = f" of at least {self.lowest}" if self.lowest is not None else ""
        below = f" above {self.above}" if self.above is not None else below
        if self.highest is None:
            return below
        return f"{below}{' and' if below else ' of'} at most {self.highest}"


ANY = Limits()


def fits(value: Any, annotation: Any) -> bool:
    """Whether a value is of the kind an annotation names; anything is, of one that is not known here."""
    outer, inner = get_origin(annotation) or annotation, get_args(annotation)
    if outer in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if outer not in KINDS:
        return True
    return KINDS[outer].holds(value) and (not inner or all(fits(each, inner[0]) for each in value))


def described(annotation: Any, limits: Limits = ANY, several: bool = False) -> str:
    """What an annotation and its limits say, for people."""
    outer, inner = get_origin(annotation) or annotation, get_args(annotation)
    if outer in (Union, UnionType):
        return " or ".join(described(each, limits, several) for each in inner)
    if outer not in KINDS:
        return str(annotation)
    if outer is str and limits.words:
        return repr(limits.words[0]) if len(limits.words) == 1 else f"one of {', '.join(limits.words)}"
    words = KINDS[outer].several if several else KINDS[outer].one
    words += str(limits) if outer in (int, float) else ""
    return words + (f" of {described(inner[0], several=True)}" if inner else "")


def check(key: str, value: Any, annotation: Any, limits: Limits = ANY) -> None:
    """Raises ValueError unless the value is of the kind that the annotation names, and within the limits."""
    if not fits(value, annotation) or not limits.hold(value):
        hint = "; quote it if it is a number" if is_number(value) and not fits(value, annotation) else ""
        hint = hint if fits("", annotation) else ""
        raise ValueError(f"{key} must be {described(annotation, limits)}, got {_shown(value)}{hint}")
    if is_integer(value) and value > LARGEST:
        raise ValueError(f"{key} must be at most {LARGEST}, got {_shown(value)}")
    if value == "":  # as of a shell's variable that is not set
        raise ValueError(f"{key} must not be empty")


def _shown(value: Any) -> str:
    """The value in a message; of an integer that would fill lines, the magnitude."""
    long = is_integer(value) and abs(value) > 10 * LARGEST
    return f"about {'-' if value < 0 else ''}10**{int(math.log10(abs(value)))}" if long else repr(value)


def check_integer(name: str, value: Any, lowest: int, highest: int | None = None) -> None:
    """Raises ValueError unless the value is an integer from `lowest` to `highest`; None: there is no limit."""
    check(name, value, int, Limits(lowest, highest=highest))


def check_counts(**counts: Any) -> None:
    """Raises ValueError that names the first value that is not an integer of at least 1."""
    for name, count in counts.items():
        check_integer(name, count, 1)


def at_least(lowest: float, default: Any = MISSING, highest: float | None = None, word: str | None = None) -> Any:
    """A dataclass field for a finite number in this range, or for a word in its place."""
    return limited(default, Limits(lowest, highest=highest, words=(word,) if word else ()))


def positive(default: Any = MISSING, highest: float | None = None, word: str | None = None) -> Any:
    """A dataclass field for a finite number above 0, or for a word in its place."""
    return limited(default, Limits(above=0, highest=highest, words=(word,) if word else ()))


def one_of(*words: str) -> Any:
    """A dataclass field for one of these words, of which the first is the default."""
    return limited(words[0], Limits(words=words))


def limited(default: Any, limits: Limits) -> Any:
    """A dataclass field for a value within limits."""
    return field(default=default, metadata={"limits": limits})


Settings = TypeVar("Settings", bound="Checked")


@dataclass(frozen=True)
class Checked:
    """Base of settings dataclasses: values are checked against the annotations and the limits of their fields."""

    prefix: ClassVar[str] = ""  # of the keys in messages

    @classmethod
    def of(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
        """Built from the entries of `values` that are named like the fields."""
        return cls(**{spec.name: values[spec.name] for spec in dataclasses.fields(cls)})

    def __post_init__(self) -> None:
        annotations = _annotations(type(self))
        for spec in dataclasses.fields(self):
            limits = spec.metadata.get("limits", ANY)
            check(f"{self.prefix}{spec.name}", getattr(self, spec.name), annotations.get(spec.name, Any), limits)


def _annotations(cls: type) -> dict[str, Any]:
    """The annotations of a class; none if only type checkers import their names."""
    try:
        return get_type_hints(cls)
    except NameError:
        return {}
