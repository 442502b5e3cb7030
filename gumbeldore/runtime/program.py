"""The version, and how the commands are called here."""

from __future__ import annotations

import re
import sys
from pathlib import Path

VERSION = "0.1.0"  # the one place that says it; CITATION.cff repeats it


def as_called(text: str) -> str:
    """The text with `gumbeldore-train` for `python train.py` (and so on) where a program so called runs.

    An installation has these programs, and not the files of a checkout.
    """
    if not Path(sys.argv[0]).name.startswith("gumbeldore-"):
        return text
    return re.sub(r"python (train|evaluate|study)\.py", r"gumbeldore-\1", text)
