"""Two files written by `sampling` or `training` with out=..., side by side: new figures over old ones."""

from __future__ import annotations

import json
from pathlib import Path

DEFAULTS = {"old": "", "new": ""}


def main(old, new) -> None:
    before, after = (json.loads(Path(path).read_text()) for path in (old, new))
    tables = [table for table in ("sampling", "training") if table in before and table in after]
    both = [(table, name) for table in tables for name in before[table] if name in after[table]]
    if not both:
        raise ValueError(f"nothing that sampling or training measures is in both {old} and {new}")
    for table, name in both:
        pairs = {key: (value, after[table][name][key]) for key, value in before[table][name].items()}
        print(name, " ".join(f"{key} {b:.4g} -> {a:.4g} (x {a / b:.2f})" for key, (b, a) in pairs.items() if b))
