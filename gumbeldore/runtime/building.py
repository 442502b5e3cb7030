"""Objects from plain values: the class that a configuration or a checkpoint names, called with checked arguments."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from gumbeldore.runtime.checked import check

OURS = ("gumbeldore", "problems", "models")
MODULES = "GUMBELDORE_MODULES"  # an environment variable: modules of the user's that a file may name, with commas
NAMED: set[str] = set()  # packages of the classes that the user's own words and option files have named


def build(node: Mapping[str, Any], key: str, base: type = object) -> Any:
    """The object a node describes: its class `_target_`, called with the other values, nothing else.

    A configuration may come out of somebody's checkpoint, so the target must be a class that inherits
    `base`, and no value may name a target of its own.

    Raises ValueError naming the key and the value that is wrong.
    """
    cls, values = named_class(node, key, base), arguments_of(node, key)
    if lacking := sorted(getattr(cls, "__abstractmethods__", ())):
        raise ValueError(f"{key}._target_={node['_target_']} lacks {', '.join(lacking)}")
    _check_arguments(cls, key, values)
    try:
        return cls(**values)
    except (TypeError, ValueError, ArithmeticError, RuntimeError, AttributeError) as error:
        raise ValueError(f"{key}: {error}") from None


def named_class(node: Mapping[str, Any], key: str, base: type = object) -> type:
    """The class that a node names, not called yet. Raises ValueError unless it inherits `base`, and as `imported`."""
    target = node.get("_target_")
    cls = imported(target, key)
    if not isinstance(cls, type):
        raise ValueError(f"{key}._target_={target} is not a class")
    if base not in cls.__mro__:  # whatever the class itself says of subclasses
        package = base.__module__.partition(".")[0]
        raise ValueError(f"{key}._target_={target} must inherit {package}.{base.__name__}")
    return cls


def arguments_of(node: Mapping[Any, Any], key: str) -> dict[str, Any]:
    """The values of a node but its target. Raises ValueError if one of them names a target of its own."""
    values = {str(name): value for name, value in node.items() if name != "_target_"}
    if "_target_" in str(values):
        raise ValueError(f"{key} must hold plain values, no targets: {values}")
    return values


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
    """What a `_target_` names, which may come out of somebody's file: to import a module executes the module.

    So it is of this project, of a package that the user has named, or of a module that the user has imported.

    Raises ValueError naming the key for all others, and for what cannot be imported.
    """
    parts = target.split(".") if isinstance(target, str) else []
    if not parts or not all(part.isidentifier() for part in parts):
        raise ValueError(f"{key}._target_={target!s:.100} cannot be imported: a target is package.module.Class")
    ours, named = parts[0] in OURS, {*NAMED, *os.environ.get(MODULES, "").replace(" ", "").split(",")}
    if ours and (other := _in_place_of_ours(parts[0])):
        rule = "which hides the package of this name that gumbeldore needs: rename yours"
        raise ValueError(f"{key}._target_={target} was looked for in {other}, {rule}")
    if not ours and not any(".".join(parts[:n]) in named for n in range(1, len(parts) + 1)):
        return _of_imported_module(parts, key)
    try:
        return resolve_name(target)
    except Exception as error:  # of whatever is imported
        where = "; is its folder in PYTHONPATH?" if isinstance(error, ModuleNotFoundError) else ""
        raise ValueError(f"{key}._target_={target} cannot be imported: {error}{where}") from None


def _of_imported_module(parts: list[str], key: str) -> Any:
    """What a dotted name is in the modules that are imported already; nothing is imported or called for it."""
    target = ".".join(parts)
    length = next((n for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in sys.modules), 0)
    if not length:
        rule = f"if it is yours, import {parts[0]} first, or set {MODULES}={parts[0]} for a command"
        raise ValueError(f"{key}._target_={target} is in no module of gumbeldore, problems or models; {rule}")
    found: Any = sys.modules[".".join(parts[:length])]
    for part in parts[length:]:
        if part not in getattr(found, "__dict__", {}):
            raise ValueError(f"{key}._target_={target} cannot be imported: there is no {part}")
        found = vars(found)[part]
    return found


def _in_place_of_ours(package: str) -> str | None:
    """The place from which a package of this project's name is imported, if the project's own lies elsewhere."""
    spec = find_spec(package)  # of a package at the top, for which nothing is executed
    places = [*(spec.submodule_search_locations or []), str(spec.origin)] if spec else []
    ours = Path(__file__).parents[2] / package  # also in an installation
    return places[0] if places and ours.is_dir() and not Path(places[0]).is_relative_to(ours) else None


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
