"""Two files written by `sampling`, `training` or `layers` with out=..., side by side: new figures over old ones."""

from __future__ import annotations

import json
from pathlib import Path

DEFAULTS = {"old": "", "new": ""}
TABLES = ("sampling", "training", "layers")


def main(old, new) -> None:
    if not old or not new:
        raise ValueError("compare needs old= and new=, two files that other measurements have written with out=")
    before, after = (json.loads(Path(path).read_text()) for path in (old, new))
    tables = [table for table in TABLES if table in before and table in after]
    both = [(table, name) for table in tables for name in before[table] if name in after[table]]
    if not both:
        raise ValueError(f"nothing that {', '.join(TABLES)} measure is in both {old} and {new}")
    for table, name in both:
        old_row, new_row = before[table][name], after[table][name]
        pairs = {key: (old_row[key], new_row[key]) for key in old_row if key in new_row}
        print(name, " ".join(f"{key} {b:.4g} -> {a:.4g} (x {a / b:.2f})" for key, (b, a) in pairs.items() if b))
