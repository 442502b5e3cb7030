"""Which study is asked for, and what is written and shown of it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gumbeldore.cli.configuration import Configuration
from gumbeldore.reporting.console import Terminal
from gumbeldore.runtime.files import atomic_write, write_table, write_text
from gumbeldore.studies import STUDIES
from gumbeldore.studies.study import About, Shown, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def chosen_study(config: Configuration) -> Study[Any, Any]:
    """The study that study= chooses. Raises ValueError if there is none."""
    kind = config.cfg.kind
    if "kind" in config.typed:
        raise ValueError(f"kind is what study= sets; choose study={kind}")
    if kind not in STUDIES:
        raise ValueError(f"kind must be one of {', '.join(STUDIES)}, got {kind!r}")
    if config.cfg.references != "solver":
        rule = "a study's method=solver takes search.time_limit"
        config.ignores("solver.time_limit", f"without references=solver: {rule}")
    readers: dict[str, list[str]] = {}
    for name, each in STUDIES.items():
        for spec in fields(each):
            readers.setdefault(spec.name, []).append(name)
    for key, names in readers.items():
        if kind not in names:
            config.ignores(key, f"on study={kind}, only on study={', '.join(names)}")
    config.reads("", STUDIES[kind].reads)
    return config.settings(STUDIES[kind])


def write_tables(out_dir: Path, chosen: Study[Any, Any], content: dict[str, Any]) -> None:
    """study.json with everything, study.csv with the lines of the table."""
    lines = content[chosen.lines]
    write_text(out_dir / "study.json", json.dumps(content, indent=2) + "\n")
    write_table(out_dir / "study.csv", [list(lines[0]), *(line.values() for line in lines)])


def draw(out_dir: Path, figure: Figure | None) -> None:
    """study.png, if the study has a picture."""
    if figure:
        with atomic_write(out_dir / "study.png") as file:
            figure.savefig(file, dpi=100)


def show(terminal: Terminal, shown: Shown, about: About) -> None:
    """Print the tables; the last one has the notes."""
    notes = "\n".join([shown.note, *about.remarks, about.hardware])
    for table in shown.tables:
        terminal.table(*table, notes if table is shown.tables[-1] else "")
    for line in shown.conclusions:
        terminal.say(line)
