"""Checks of the words on a command line, before anything is done."""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from gumbeldore.runtime.checkpoint import shipped

CONFIGS = Path(__file__).parents[2] / "configs"
GROUPS = ("problem", "model", "train", "search", "solver")  # of keys


def check_overrides(words: list[str], config_name: str, own_configs: str | None = None, sweep: bool = False) -> None:
    """Refuse keys that do not exist; the error names the keys that do, or what became of the key.

    Arguments:
        own_configs: a folder of the user's (--config-dir) whose groups add options to those of this one
        sweep: whether a list of values means several runs (--multirun)

    Raises ValueError, and Hydra's own errors for other mistakes (an unknown option of a group, a malformed word).
    """
    if own_configs and not Path(own_configs).is_dir():
        raise ValueError(f"--config-dir: there is no folder {own_configs}")
    _refuse_values_without_key(words, config_name)
    overrides = OverridesParser.create().parse_overrides(words)
    for override in overrides:
        _refuse_other_than_changes(override)
        if override.is_sweep_override() and not sweep:
            key, _, values = str(override.input_line).partition("=")
            raise ValueError(f"{key}={values}: several values are a list, '{key}=[{values}]', or several runs, -m")
    groups = [override for override in overrides if is_group(override.key_or_group)]
    if any(override.key_or_group == "method" and override.value() == [] for override in groups):
        raise ValueError("method=[]: there must be one method at least")
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        path = [f"hydra.searchpath=['file://{Path(own_configs).resolve()}']"] if own_configs else []
        _check_choices(groups, config_name, path)
        cfg = hydra.compose(config_name, [*path, *map(_first_choice, groups)])
    # Of several options of a group, whose problems and networks may have other keys, Hydra checks each composition.
    unchecked = ("problem", "model") if any(override.is_sweep_override() for override in groups) else ()
    for override in overrides:
        key = override.key_or_group
        if re.fullmatch(r"methods(\.\w+)?", key):
            raise ValueError(f"{override.input_line}: a search method is chosen with method=")
        if key.partition(".")[0] == "additions":
            problem, _, name = key.removeprefix("additions.").rpartition(".")
            where = f"problem.{name} or model.{name}" if problem else f"train.{name}"
            raise ValueError(f"{key} is the recipe's: change {where}")
        if key.partition(".")[0] == "hydra" and "_target_" in str(override.input_line):
            raise ValueError(f"{override.input_line}: Hydra's own classes cannot be changed")
        if override in groups or key.partition(".")[0] in ("hydra", *unchecked):
            continue
        if not _exists(cfg, key):
            raise ValueError(f"there is no key {key}; {_alternatives(cfg, key)}")
        _check_structure(cfg, override)


def _refuse_values_without_key(words: list[str], config_name: str) -> None:
    """Raises ValueError for a word without `=`, with the key that it may be meant for."""
    word = next((word for word in words if "=" not in word and not word.startswith("~")), None)
    if word is None:
        return
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = hydra.compose(config_name, return_hydra_config=True)
    groups = [*cfg.hydra.runtime.choices, *(["method"] if "methods" in cfg else [])]
    keys = [group for group in groups if (CONFIGS / group / f"{word}.yaml").is_file()]
    likely = "checkpoint" if word in shipped() or word.endswith(".pt") else "instances"
    keys += [likely] if likely in cfg.keys() else []  # `in cfg` denies missing values
    raise ValueError(f"words are key=value{f': {keys[0]}={word}' if keys else f', got {word!r}'}")


def _refuse_other_than_changes(override: Override) -> None:
    """Raises ValueError for a key that is added or deleted, and for a word in place of all settings of the search."""
    if override.is_add() or override.is_delete():
        hint = "; leave out the +" if override.is_add() else ""
        raise ValueError(f"{override.input_line}: keys can be changed, not added or removed{hint}")
    if override.key_or_group == "search" and not isinstance(override.value(), dict):  # {beam_width: 3} gives settings
        raise ValueError(f"{override.input_line}: a search method is chosen with method=")


def _check_structure(cfg: DictConfig, override: Override) -> None:
    """Raises ValueError for one value in place of a group of keys, and for keys in place of a list."""
    node, key = OmegaConf.select(cfg, override.key_or_group, throw_on_missing=False), override.key_or_group
    keys = not override.is_sweep_override() and isinstance(override.value(), dict)
    if OmegaConf.is_dict(node) and not keys:
        raise ValueError(f"{override.input_line}: {key} has the keys {', '.join(map(str, node))}; change one of these")
    if OmegaConf.is_list(node) and keys:
        raise ValueError(f"{override.input_line}: {key} must be a list or null")


def _check_choices(groups: list[Override], config_name: str, path: list[str]) -> None:
    """Raises ValueError if an option brings what another chooses: an experiment its problem, a recipe its search."""
    typed = {override.key_or_group: _options(override) for override in groups}
    for experiment, problem in itertools.product(typed.get("experiment", []), typed.get("problem", [])):
        if experiment in (None, "null"):
            continue
        own = _choices(config_name, path, f"experiment={experiment}").problem
        if own is None:
            raise ValueError(f"experiment={experiment} has a problem of its own, leave out problem={problem}")
        if own != problem:
            raise ValueError(f"experiment={experiment} is for problem={own}, not for problem={problem}")
    for recipe, method in itertools.product(typed.get("recipe", []), typed.get("method", [])):
        if _choices(config_name, path, f"recipe={recipe}").method != _choices(config_name, path).method:
            raise ValueError(f"recipe={recipe} is fast with a search method of its own, leave out method={method}")


def _choices(config_name: str, path: list[str], *words: str) -> DictConfig:
    """The options of the groups that words come to."""
    return hydra.compose(config_name, [*path, *words], return_hydra_config=True).hydra.runtime.choices


def _options(override: Override) -> list[Any]:
    """What a word chooses of a group: one option, or those that a sweep lists."""
    if override.is_sweep_override():
        return list(override.sweep_string_iterator()) if override.is_choice_sweep() else []
    return [override.value()]


def _first_choice(override: Override) -> str:
    """The word of a group, with the first of the options that a sweep lists."""
    if override.is_sweep_override():
        return f"{override.key_or_group}={next(iter(_options(override)), 'null')}"
    return str(override.input_line)


def is_group(key: str) -> bool:
    """Whether a key chooses an option of a group."""
    return (CONFIGS / key).is_dir()


def check_sweep(words: list[str]) -> None:
    """Raises ValueError if several runs would write to one folder: the second would be refused after the first."""
    overrides = OverridesParser.create().parse_overrides(words)
    swept = [override for override in overrides if override.is_sweep_override()]
    for override in overrides:
        alike = override not in swept and "$" not in str(override.input_line)
        key = override.key_or_group
        if swept and alike and key in ("run_dir", "out_dir"):
            raise ValueError(f"{override.input_line} is that of every run; try '{key}=runs/seed${{seed}}'")


def _exists(cfg: DictConfig, key: str) -> bool:
    node: Any = cfg
    for part in key.split("."):
        if not OmegaConf.is_dict(node) or part not in node.keys():  # `in node` denies missing values
            return False
        node = node._get_node(part)
    return True


def _alternatives(cfg: DictConfig, key: str) -> str:
    parent, _, name = key.rpartition(".")
    if parent and _exists(cfg, parent):
        siblings = OmegaConf.select(cfg, parent)
        if OmegaConf.is_dict(siblings):
            return f"{parent} has {', '.join(sorted(k for k in siblings if k not in ('_target_', 'algorithm')))}"
        value = "null" if siblings is None else siblings
        return f"{parent} is {value}, give the whole of it: '{parent}={{{name}: ...}}'"
    names = sorted({str(k) for k in cfg} - {"methods"} | {"method"})
    groups = [group for group in GROUPS if not parent and group in cfg and name in cfg[group]]
    close = [f"{group}.{name}" for group in groups]
    close = close or difflib.get_close_matches(parent or name, names, n=1)
    return (f"did you mean {' or '.join(close)}? " if close else "") + f"The keys are {', '.join(names)}"


def key_values(words: list[str]) -> dict[str, str]:
    """Words key=value of a command without Hydra. Raises ValueError for another word, and a key that comes twice."""
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word}: values are given as key=value")
        if key in given:
            raise ValueError(f"{key}= is given twice")
        given[key] = value
    return given


def command_line() -> str:
    """The command as it was typed."""
    program, *words = sys.argv
    return shlex.join([*(["python"] if program.endswith(".py") else []), program, *words])


def typed_keys(words: list[str]) -> Iterator[str]:
    """The keys that words give values, in full: `search={beam_width: 3}` gives search.beam_width."""
    for override in OverridesParser.create().parse_overrides(words):
        plain = not override.is_delete() and not override.is_sweep_override()
        value = override.value() if plain else None
        if isinstance(value, dict):
            yield from (f"{override.key_or_group}.{name}" for name in value)
        else:
            yield override.key_or_group
