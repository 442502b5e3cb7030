"""Objects from plain values: the class that a configuration or a checkpoint names, called with checked arguments."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from gumbeldore.runtime.checked import check


def build(node: Mapping[str, Any], key: str, base: type = object) -> Any:
    """The object a node describes: its class `_target_`, called with the other values, nothing else.

    A configuration may come out of somebody's checkpoint, so the target must be a class that inherits
    `base`, and no value may name a target of its own.

    Raises ValueError naming the key and the value that is wrong.
    """
    values = dict(node)
    target = values.pop("_target_", None)
    cls = imported(target, key)
    if not isinstance(cls, type):
        raise ValueError(f"{key}._target_={target} is not a class")
    if not issubclass(cls, base):
        package = base.__module__.partition(".")[0]
        raise ValueError(f"{key}._target_={target} must inherit {package}.{base.__name__}")
    if lacking := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ValueError(f"{key}._target_={target} lacks {', '.join(lacking)}")
    if "_target_" in str(values):
        raise ValueError(f"{key} must hold plain values, no targets: {values}")
    _check_arguments(cls, key, values)
    try:
        return cls(**values)
    except (TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError) as error:
        raise ValueError(f"{key}: {error}") from None


def node_of(built: Any, key: str) -> dict[str, Any]:
    """The node of which `build` makes such an object: its class, and what it was made with (`made_with`).

    Raises ValueError naming what a file cannot hold: a class without a module, an argument that is no plain value.
    """
    cls = type(built)
    target = f"{cls.__module__}.{cls.__qualname__}"
    if cls.__module__ == "__main__" or "<locals>" in target:
        raise ValueError(f"{key}: {target} cannot be found when the file is loaded; its class must be in a module")
    signature = inspect.signature(cls)
    arguments, named = getattr(built, "made_with", ((), {}))
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:  # of a dataclass, or changed by __new__
        raise ValueError(f"{key}: {target} does not say what it was made with ({error})") from None
    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
        elif signature.parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL or value:
            values[name] = value
    for name, value in values.items():
        try:
            values[name] = json.loads(json.dumps(value))  # of plain types, whatever subclasses they are
        except TypeError:
            rule = "numbers, texts, true, false, None and lists of these can be written"
            raise ValueError(f"{key}: {name} is of type {type(value).__name__}; {rule}") from None
    return {"_target_": target, **values}


def imported(target: Any, key: str) -> Any:
    """What a `_target_` names. Raises ValueError naming the key if that cannot be imported."""
    try:
        return resolve_name(str(target))
    except Exception as error:  # of whatever is imported
        if other := _in_place_of_ours(str(target).partition(".")[0]):
            rule = "which hides the package of this name that gumbeldore needs: rename yours"
            raise ValueError(f"{key}._target_={target} was looked for in {other}, {rule}") from None
        where = "; is its folder in PYTHONPATH?" if isinstance(error, ModuleNotFoundError) else ""
        raise ValueError(f"{key}._target_={target} cannot be imported: {error}{where}") from None


def _in_place_of_ours(package: str) -> str | None:
    """The file that is imported under the name of a package of this project, where it is another."""
    file = getattr(sys.modules.get(package), "__file__", None)
    ours = Path(__file__).parents[2] / package  # also in an installation
    return file if file and ours.is_dir() and not Path(file).is_relative_to(ours) else None


def takes(cls: type, name: str) -> bool:
    """Whether a class can be called with an argument of that name."""
    parameters = inspect.signature(cls).parameters
    return name in parameters or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def _check_arguments(cls: type, key: str, values: dict[str, Any]) -> None:
    """Raises ValueError for a value that the class does not take, or of another kind than it says."""
    parameters = inspect.signature(cls).parameters
    if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        check_keys(values, parameters, key)
    for name, parameter in parameters.items():
        if name in values:
            check(f"{key}: {name}", values[name], _evaluated(parameter.annotation, cls))


def _evaluated(annotation: Any, cls: type) -> Any:
    """What the text of an annotation stands for; the text itself if only type checkers import its names."""
    if isinstance(annotation, str):
        with contextlib.suppress(Exception):
            return eval(annotation, inspect.unwrap(cls.__init__).__globals__)  # type: ignore[misc]
    return annotation


def check_keys(given: Collection[str], known: Collection[str], group: str) -> None:
    """Refuse a key that a file gives and the group (`train`, `model`, ...) does not have: ValueError."""
    for name in given:
        if name not in known:
            raise ValueError(f"there is no key {group}.{name}; {group} has {', '.join(sorted(known))}")
