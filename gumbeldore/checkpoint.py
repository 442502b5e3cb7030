"""Everything a run needs to go on, in one file that is either whole or not there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from gumbeldore.files import replacing

FORMAT = 2


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint (tensors and plain values) to a temporary file, then rename it."""
    with replacing(path) as file:
        torch.save({"format": FORMAT, **content}, file)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; nothing in it is executed.

    Raises ValueError if the file is missing, damaged or of another format version.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError, OSError) as error:
        raise ValueError(f"{path} is not a readable checkpoint: {str(error).splitlines()[0]}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise ValueError(f"{path} has checkpoint format {found}, this version reads format {FORMAT}")
    return content


def find(path: Path) -> Path:
    """The checkpoint a user means: a file itself, or the best one of a run directory."""
    return path / "checkpoints" / "best.pt" if path.is_dir() else path
