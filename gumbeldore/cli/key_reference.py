"""Writes docs/config.md: every key of the configurations with its values and the comment beside it.

`python -m gumbeldore.cli.key_reference` writes the page anew; a test compares it with the configurations.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import yaml
from omegaconf import OmegaConf

from gumbeldore.cli.overrides import FOLDER
from gumbeldore.cli.parts import search_keys
from gumbeldore.sampler.methods import DEFAULTS, STARTS

PAGE = FOLDER.parent / "docs" / "config.md"
COMMANDS = {
    "train": "python train.py",
    "evaluate": "python evaluate.py",
    "study": "python study.py",
    "experts": "python -m problems.solvers",
}
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


class Key(NamedTuple):
    name: str  # dotted, as on the command line
    value: str  # as written
    comment: str


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name, usage in COMMANDS.items():
        path = FOLDER / f"{name}.yaml"
        parts.append(section(usage, f"[{path.name}](../configs/{path.name})", {"default": choices(path) + read(path)}))
    for group, (heading, prefix, about) in GROUPS.items():
        columns = {path.stem: choices(path) + read(path, prefix) for path in options(group)}
        parts.append(section(heading, about, columns))
    about = "[search.yaml](../configs/search.yaml), with the classes' defaults; commands and presets change some."
    parts.append(section("Settings of the search methods", about, {"default": settings_of_search()}))
    return "\n".join([*parts, methods()])


def settings_of_search() -> list[Key]:
    """Those of search.yaml, with the defaults of the methods' classes."""
    keys = read(FOLDER / "search.yaml")
    defaults = {f"search.{name}": OmegaConf.create([value]) for name, value in DEFAULTS.items()}
    shown = {key: OmegaConf.to_yaml(value).strip().removeprefix("- ") for key, value in defaults.items()}
    return [key._replace(value=shown.get(key.name, key.value) if key.value == "null" else key.value) for key in keys]


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
    names = dict.fromkeys(key.name.removeprefix("search.") for key in settings_of_search())
    reads = {path.stem: read_by(yaml.safe_load(path.read_text()), names) for path in options("method")}
    rows = [[f"`search.{name}`", *("x" if name in read else "" for read in reads.values())] for name in names]
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
    """The keys of a file, but Hydra's own, with the comments at the ends of their lines."""
    text = path.read_text()
    lines = text.splitlines()

    def walk(node: yaml.Node, prefix: str) -> list[Key]:
        found = []
        for name, value in node.value:
            key, line = f"{prefix}{name.value}", lines[value.start_mark.line]
            if isinstance(value, yaml.MappingNode):
                found += walk(value, f"{key}.")
            elif name.value != "defaults":
                found.append(Key(key, text[value.start_mark.index : value.end_mark.index], line.partition(" # ")[2]))
        return found

    return [key for key in walk(yaml.compose(text), prefix) if not key.name.startswith("hydra.")]


if __name__ == "__main__":
    PAGE.write_text(page())
