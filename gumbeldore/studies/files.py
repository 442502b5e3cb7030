"""The files of a study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gumbeldore.runtime.files import atomic_write, write_table, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(out_dir: Path, content: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> None:
    """study.json with everything, and study.csv with the lines of the table."""
    write_text(out_dir / "study.json", json.dumps(content, indent=2) + "\n")
    write_table(out_dir / "study.csv", [list(lines[0]), *(line.values() for line in lines)])


def draw(out_dir: Path, figure: Figure) -> None:
    """study.png"""
    with atomic_write(out_dir / "study.png") as file:
        figure.savefig(file, dpi=100)
