"""Two files written by `sampling` or `training` with out=..., side by side: new figures over old ones."""

from __future__ import annotations

import json
from pathlib import Path

DEFAULTS = {"old": "", "new": ""}


def main(old, new) -> None:
    before, after = (json.loads(Path(path).read_text()) for path in (old, new))
    for table in ("sampling", "training"):
        for name in before.get(table, {}):
            if name in after.get(table, {}):
                pairs = {key: (value, after[table][name][key]) for key, value in before[table][name].items()}
                print(name, " ".join(f"{key} {b:.4g} -> {a:.4g} (x {a / b:.2f})" for key, (b, a) in pairs.items() if b))
