"""Writes docs/config.md: every key with its default and what its class says of it.

`python -m docs.keys` writes the page anew; a test compares it with the classes and the files.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import yaml
from omegaconf import OmegaConf

from gumbeldore.cli import schema
from gumbeldore.cli.words import CONFIGS
from gumbeldore.evaluation.baseline import SolverSettings
from gumbeldore.races.racing import RaceSettings
from gumbeldore.runtime.building import imported
from gumbeldore.sampler import methods
from gumbeldore.studies import STUDIES
from gumbeldore.training.settings import ALGORITHMS

PAGE = CONFIGS.parent / "docs" / "config.md"
INTRODUCTION = """# All keys of the configurations

After this page you know what a setting means, and its value if no preset, recipe or command replaces it.

You can change every value on the command line (`train.epochs=10`), and choose an option of a group (`problem=cvrp`,
`'method=[greedy,wor]'`). The options are the files in [configs/](../configs), one folder for each group; a comment at
the beginning of a file says what it is for. A key whose default is `???` must be given. `null` means none, or what the
row says. A key that does not exist is an error, and so is a value that nothing reads. For options of your own see
`--config-dir` in [add-a-problem.md](add-a-problem.md). `python -m docs.keys` writes this page.

The column "default" shows the default of the class: for a training, the paper's. Presets, recipes, experiments and
commands replace many of these values. `train.py` takes most of `train.*` from `problem=` and `recipe=`, and starts the
nucleus at 0.95. `evaluate.py` takes `search.temperature=auto`, the policy's `search.step_size`, and for job shops after
a training with `problem.chronological` `search.decisions_per_pass=4`. `study.py` has lists for `search.num_rounds`,
`search.iterations` and `search.top_p_start`, takes at most 100 instances, and needs `checkpoint`.
`--help` shows the values of a command.
"""
WRAPPERS = {"all": methods.Equivalents, "all with rounds, reconstruct, local_search": methods.Anytime}  # of methods
SECTIONS: dict[str, tuple[str, Mapping[str, type[Any]]]] = {  # by heading: the group of the keys, its classes by name
    "All commands": ("", {"all commands": schema.MachineSettings}),
    "python train.py": ("", {"all": schema.RunSettings}),
    "The algorithm of a training, `train=...`": ("train.", ALGORITHMS),
    "python evaluate.py and study.py": ("", {"all": schema.EvaluationSettings}),
    "The study, `study=...`": ("", STUDIES),
    "The race of `study=step_size`": ("race.", {"step_size": RaceSettings}),
    "python -m problems.solvers": ("", {"all": schema.ExpertSettings}),
    "Search methods, `method=...`": ("search.", {**methods.METHODS, **WRAPPERS}),
    "Established solvers, `method=solver` and `references=solver`": ("solver.", {"all": SolverSettings}),
    "Ray": ("ray.", {"all": schema.RaySettings}),
}
IN_YAML = {"None": "null", "True": "true", "False": "false"}
SHARED = [spec.name for spec in fields(schema.MachineSettings)]


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for heading, (prefix, classes) in SECTIONS.items():
        parts.append(f"## {heading}\n\n" + table(["key", "default", "of", ""], keys_of(prefix, classes)))
    for group in ("problem", "model"):
        parts.append(f"## The classes of `{group}=...`\n\n" + table(["key", "of", ""], arguments_of(group)))
    return "\n".join(parts)


def keys_of(prefix: str, classes: Mapping[str, type[Any]]) -> Iterator[list[str]]:
    """A row for each field: default, which of the classes have it, and what they say of it; one for all that agree."""
    names = dict.fromkeys(spec.name for cls in classes.values() for spec in fields(cls))
    if prefix == "search.":
        names = dict.fromkeys(schema.SEARCH)
    for name in names:
        having = {of: cls for of, cls in classes.items() if name in schema.defaults_of(cls)}
        if not prefix and name in SHARED and "all commands" not in having:
            continue
        texts = {of: text for of, cls in having.items() if (text := documented(cls).get(name))}
        *_, default_text = "", *texts.values()  # of classes that say nothing
        agreeing: dict[tuple[str, str], list[str]] = {}
        for of, cls in having.items():
            values = schema.SEARCH if prefix == "search." else schema.defaults_of(cls)
            agreeing.setdefault((written(values[name]), texts.get(of, default_text)), []).append(of)
        for (default, text), named in agreeing.items():
            yield [f"`{prefix}{name}`", f"`{default}`", "" if len(named) == len(classes) else ", ".join(named), text]


def arguments_of(group: str) -> Iterator[list[str]]:
    """A row for each argument of the classes that the options of a group name; one for all that say the same of it."""
    values = [yaml.safe_load(path.read_text()) for path in sorted((CONFIGS / group).glob("*.yaml"))]
    targets = dict.fromkeys((each.get(group) or each).get("_target_") for each in values)
    having: dict[tuple[str, str], list[str]] = {}
    for target in filter(None, targets):
        cls = imported(target, group)
        for name, text in documented(cls).items():
            if name in inspect.signature(cls).parameters:  # a subclass may fix an argument of its base
                having.setdefault((name, text), []).append(f"`{target.removeprefix(f'{group}s.')}`")
    for (name, text), classes in having.items():
        yield [f"`{group}.{name}`", ", ".join(classes), text]


def documented(cls: type) -> dict[str, str]:
    """What the section "Arguments" of a class's docstring says of each argument."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("\nArguments:\n")
        for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {6,}.*)*)", section, re.MULTILINE):
            words = re.sub(r"\b(None|True|False)\b", lambda word: IN_YAML[word[0]], " ".join(text.split()))
            found |= dict.fromkeys(names.split(", "), words.replace("<", "&lt;"))
    return found


def written(value: Any) -> str:
    """A value as YAML, in one line."""
    return yaml.safe_dump(OmegaConf.to_container(OmegaConf.create([value])), default_flow_style=True)[1:-2]


def table(header: list[str], rows: Iterator[list[str]]) -> str:
    lines = ["|".join(["", *(f" {cell} " if cell else " " for cell in row), ""]) for row in [header, *rows]]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:], ""])


if __name__ == "__main__":
    PAGE.write_text(page())
