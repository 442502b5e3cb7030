"""Checked settings: a value of the wrong type or out of range is an error that names its key."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

LARGEST = 2**63 - 1  # integer of a tensor


def at_least(lowest: float, default: Any = MISSING, highest: float | None = None, optional: bool = False) -> Any:
    """A dataclass field for a finite number in this range; its annotation decides between int and float."""
    return field(default=default, metadata={"lowest": lowest, "highest": highest, "optional": optional})


def positive(default: Any = MISSING, highest: float | None = None, optional: bool = False) -> Any:
    """A dataclass field for a finite number above 0."""
    return field(default=default, metadata={"above": 0, "highest": highest, "optional": optional})


def one_of(*words: str) -> Any:
    """A dataclass field for one of these words, of which the first is the default."""
    return field(default=words[0], metadata={"words": words})


Settings = TypeVar("Settings", bound="Checked")


@dataclass(frozen=True)
class Checked:
    """Base of settings dataclasses whose fields carry their range."""

    prefix: ClassVar[str] = ""  # of the keys in messages

    @classmethod
    def of(cls: type[Settings], values: Mapping[str, Any]) -> Settings:
        """Built from the entries of `values` that are named like the fields."""
        return cls(**{spec.name: values[spec.name] for spec in dataclasses.fields(cls)})

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            key, value, kind = f"{self.prefix}{spec.name}", vars(self)[spec.name], _kind(spec)
            if "words" in spec.metadata:
                if value not in spec.metadata["words"]:
                    raise ValueError(f"{key} must be one of {', '.join(spec.metadata['words'])}, got {value!r}")
            elif spec.metadata:
                _check(key, value, spec)
            elif kind == "bool":
                check_switches(self, spec.name)
            elif kind == "str | None" and value is None:
                continue
            elif kind in ("str", "str | None") and not isinstance(value, str):
                raise ValueError(f"{key} must be text, got {value!r}; quote it if it is a number")
            elif kind in ("str", "str | None") and not value:  # as of a shell's variable that is not set
                raise ValueError(f"{key} must not be empty")


def _kind(spec: dataclasses.Field) -> str:
    """The annotation as it is written, which is not postponed in every module."""
    return spec.type.__name__ if isinstance(spec.type, type) else str(spec.type)


def _check(key: str, value: Any, spec: dataclasses.Field) -> None:
    if value is None and spec.metadata["optional"]:
        return
    otherwise = " or null" if spec.metadata["optional"] else ""
    lowest, highest, above = (spec.metadata.get(name) for name in ("lowest", "highest", "above"))
    if _kind(spec).startswith("int"):
        check_integer(key, value, spec.metadata["lowest"], highest, otherwise)
        if value > LARGEST:
            raise ValueError(f"{key} must be at most {LARGEST}, got {value}")
        return
    limit = f"of at least {lowest}" if lowest is not None else f"above {above}"
    limit += "" if highest is None else f" and at most {highest}"
    low = not is_number(value) or (value < lowest if lowest is not None else value <= above)
    if low or (highest is not None and value > highest):
        raise ValueError(f"{key} must be a number {limit}{otherwise}, got {value!r}")


def is_integer(value: Any) -> bool:
    """Whether it is one, NumPy's included; true and false are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a finite one, NumPy's included; true and false are none."""
    return is_integer(value) or isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_integer(name: str, value: Any, lowest: int, highest: int | None = None, otherwise: str = "") -> None:
    """Raises ValueError unless the value is an integer from `lowest` to `highest`.

    Arguments:
        highest: None: there is no limit
        otherwise: what else the caller takes, for the message: " or null"
    """
    if not is_integer(value) or value < lowest or (highest is not None and value > highest):
        limits = f"of at least {lowest}" + ("" if highest is None else f" and at most {highest}")
        raise ValueError(f"{name} must be an integer {limits}{otherwise}, got {value!r}")


def check_counts(**counts: Any) -> None:
    """Raises ValueError that names the first value that is not an integer of at least 1."""
    for name, count in counts.items():
        check_integer(name, count, 1)


def check_switches(settings: Any, *names: str) -> None:
    """Raises ValueError for what is neither True nor False: `no` and `off` are texts, and texts count as true."""
    for name in names:
        value = vars(settings)[name]
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, got {value!r}")
