"""Writes docs/config.md: every key of the configurations with its values and the comment beside it.

`python -m gumbeldore.cli.key_reference` writes the page anew; a test compares it with the configurations.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import OmegaConf

from gumbeldore.cli.methods import search_keys
from gumbeldore.cli.schema import (
    COMMANDS,
    SEARCH,
    EvaluationSettings,
    ExpertSettings,
    RaySettings,
    RunSettings,
    SolverSettings,
    StudySettings,
    defaults_of,
)
from gumbeldore.cli.words import FOLDER
from gumbeldore.races.settings import RaceSettings
from gumbeldore.runtime.building import imported
from gumbeldore.sampler.methods import METHODS, STARTS, Anytime, Equivalents
from gumbeldore.studies import STUDIES
from gumbeldore.training.settings import ALGORITHMS

PAGE = FOLDER.parent / "docs" / "config.md"
INTRODUCTION = """# All keys of the configurations

This page helps you to find a setting: what it means, its default, and what presets and recipes set it to.

Every value can be changed on the command line (`train.epochs=10`), an option of a group chosen (`problem=cvrp`,
`'method=[greedy,wor]'`). `???` must be given, `null` means none or the default that the comment names. A key that does
not exist, or of `search` and `solver` one that nothing reads, is an error. Options of your own: `--config-dir`, see
[add-a-problem.md](add-a-problem.md). The page is written by `python -m gumbeldore.cli.key_reference` from the files in
[configs/](../configs).
"""


GROUPS = {  # heading, where its keys are, how an option is chosen
    "recipe": (
        "Recipes",
        "",
        "`recipe=...` in training: the algorithm. paper: that of the paper, as train.yaml has it; fast: with "
        "additions; the others are fast with another search for experts. Presets and experiments put `additions` into "
        "problem, network and training, where they can be "
        "changed. What a preset of your own sets wins over these values, but for those of the search.",
    ),
    "problem": (
        "Presets",
        "",
        "`problem=...` in training: sizes and lengths for two CPU cores.",
    ),
    "experiment": (
        "Experiments",
        "",
        "`experiment=...` in training: sizes and lengths; demo for any CPU, the others those of the paper, for a GPU. "
        "What they change of the values in train.yaml and search.yaml, demo of its preset:",
    ),
    "model": ("Networks", "model.", "`model=...` in training; a preset chooses its own."),
    "train": (
        "Sources of solutions",
        "train.",
        "`train=...` in training: which solutions are imitated. These values win over a preset's.",
    ),
    "study": (
        "Studies",
        "",
        "`study=...` in study.py: curves of several methods, a race that finds the best values of one search,"
        " estimates of expectations, cost against diversity.",
    ),
    "debug": ("Small runs", "", "`debug=...` in training, added to any other choice."),
}


OF_COMMAND = {
    "train": RunSettings,
    "evaluate": EvaluationSettings,
    "study": StudySettings,
    "experts": ExpertSettings,
}
CLASSES: dict[str, tuple[type[Any], ...]] = {  # by the group of their keys
    "train": tuple(ALGORITHMS.values()),
    "search": (*reversed(METHODS.values()), Equivalents, Anytime),
    "solver": (SolverSettings,),
    "ray": (RaySettings,),
    "race": (RaceSettings,),
}


# The group of keys that depend on an option: the option, and the classes that it chooses from.
CHOSEN: dict[str, tuple[str, Mapping[str, type[Any]]]] = {"train": ("train", ALGORITHMS), "": ("study", STUDIES)}
SET_BY_OPTIONS = ("train.algorithm", "kind")
IN_YAML = {"None": "null", "True": "true", "False": "false"}


class Key(NamedTuple):
    name: str  # dotted, as on the command line
    value: str  # as written
    comment: str


def page() -> str:
    """The whole page."""
    about = "The defaults of each command; empty: it does not have the key."
    columns = {command: choices(FOLDER / f"{command}.yaml") + defaults(command) for command in COMMANDS}
    parts = [INTRODUCTION, section("The commands", about, columns)]
    for group, (heading, prefix, about) in GROUPS.items():
        columns = {path.stem: choices(path) + read(path, prefix) for path in options(group)}
        parts.append(section(heading, about, columns))
    about = "The defaults of the methods' classes; commands and presets change some."
    parts.append(section("Settings of the search methods", about, {"default": of_search()}))
    return "\n".join([*parts, methods()])


def defaults(command: str) -> list[Key]:
    """The keys of a command but those of its searches: of the classes, changed by its own file."""
    own = {key.name: key for key in read(FOLDER / f"{command}.yaml")}
    keys = [key for key in flat(COMMANDS[command], of=OF_COMMAND[command]) if key.name not in SET_BY_OPTIONS]
    if command == "experts":  # it has groups for the sake of the presets
        keys = [key for key in keys if "." not in key.name]
    keys = [own.pop(key.name, key) for key in keys if not key.name.startswith("search.") or key.name in own]
    return [*keys, *own.values()]


def of_search() -> list[Key]:
    """The settings of the search methods."""
    return flat({"search": SEARCH})


def flat(values: Mapping[str, Any], prefix: str = "", of: type = object) -> list[Key]:
    """Keys with their defaults, and what their classes say of them.

    Arguments:
        of: the class of the keys without a group
    """
    found = []
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            found += flat(value, f"{key}.", of)
        else:
            found.append(Key(key, OmegaConf.to_yaml([value]).strip().removeprefix("- "), meaning(key, of)))
    return found


def meaning(key: str, of: type[Any]) -> str:
    """What the classes with a setting of this name say of it; of a setting of some algorithms alone, of which."""
    group, _, name = key.rpartition(".")
    own: tuple[type[Any], ...] = (of, *STUDIES.values()) if of is StudySettings else (of,)
    text = next(filter(None, (documented(cls).get(name) for cls in CLASSES.get(group, own))), "")
    option, kinds = CHOSEN.get(group, ("", {}))
    readers = [kind for kind, cls in kinds.items() if name in defaults_of(cls)]
    return f"{option}={', '.join(readers)}: {text}" if 0 < len(readers) < len(kinds) else text


def documented(cls: type) -> dict[str, str]:
    """What the section "Arguments" of a class's docstring says of each argument."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("\nArguments:\n")
        for entry in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {6,}.*)*)", section, re.MULTILINE):
            names, text = entry
            text = reduce(lambda words, pair: words.replace(*pair), IN_YAML.items(), " ".join(text.split()))
            found |= dict.fromkeys(names.split(", "), text)
    return found


def options(group: str) -> list[Path]:
    return sorted((FOLDER / group).glob("*.yaml"))


def choices(path: Path) -> list[Key]:
    """The options that a file takes of other groups."""
    found = []
    for entry in yaml.safe_load(path.read_text()).get("defaults", []):
        for group, option in entry.items() if isinstance(entry, dict) else ():
            *override, name = group.replace("/", "").split()
            if (name in GROUPS or name == "method") and not (override and option is None):
                names = ", ".join(each.stem for each in options(name))
                found.append(Key(name, str(option).replace("'", "").replace("None", "null"), f"of {names}"))
    return found


def section(heading: str, about: str, columns: dict[str, list[Key]]) -> str:
    """A table with a row per key and a column per option."""
    names = dict.fromkeys(key.name for keys in columns.values() for key in keys)
    values = {column: {key.name: f"`{key.value}`" for key in keys} for column, keys in columns.items()}
    rows = []
    for name in names:
        comments = dict.fromkeys(key.comment for keys in columns.values() for key in keys if key.name == name)
        meaning = "; ".join(filter(None, comments)).replace("<", "&lt;")
        rows.append([f"`{name}`", *(values[column].get(name, "") for column in columns), meaning])
    return "\n".join([f"## {heading}", "", about, "", *table(["key", *columns, ""], rows)])


def methods() -> str:
    """Which values each search method reads."""
    reads = {path.stem: read_by(yaml.safe_load(path.read_text()), SEARCH) for path in options("method")}
    rows = [[f"`search.{name}`", *("x" if name in read else "" for read in reads.values())] for name in SEARCH]
    about = "`method=...`: one in training, a list in evaluation and study; heuristic and solver not in training."
    about += " What each reads; solver has the keys `solver.time_limit` and `solver.workers`:"
    return "\n".join(["## Search methods", "", about, "", *table(["key", *reads], rows)])


def read_by(method: dict, names: Iterable[str]) -> set[str]:
    """The settings that a method reads, with any start."""
    return {key for start in STARTS for key in search_keys(method, dict.fromkeys(names) | {"start": start})}


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["|".join(["", *(f" {cell} " if cell else " " for cell in row), ""]) for row in [header, *rows]]
    return [lines[0], "|---" * len(header) + "|", *lines[1:], ""]


def read(path: Path, prefix: str = "") -> list[Key]:
    """The keys of a file, but Hydra's own; with the comments at the ends of lines, or what problem or network says."""
    text = path.read_text()
    lines = text.splitlines()
    target = yaml.safe_load(text).get("_target_") if prefix == "model." else None
    of_target = documented(imported(target, "model")) if target else {}
    of_problem: dict[str, str] = {}

    def walk(node: yaml.Node, prefix: str) -> list[Key]:
        found = []
        for name, value in node.value:
            key, line = f"{prefix}{name.value}", lines[value.start_mark.line]
            if isinstance(value, yaml.MappingNode):
                found += walk(value, f"{key}.")
            elif name.value != "defaults":
                if key == "problem._target_":
                    of_problem.update(documented(imported(value.value, "problem")))
                known = {"problem": of_problem, "model": of_target}.get(prefix[:-1], {}).get(name.value)
                comment = line.partition(" # ")[2] or known or ""
                found.append(Key(key, text[value.start_mark.index : value.end_mark.index], comment))
        return found

    keys = walk(yaml.compose(text), prefix)
    return [key for key in keys if not key.name.startswith("hydra.") and key.name not in SET_BY_OPTIONS]


if __name__ == "__main__":
    PAGE.write_text(page())
