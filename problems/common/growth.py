"""Training instances that grow: a small problem is learnt in seconds, and most of it is true of larger ones."""

from __future__ import annotations

from gumbeldore.runtime.checked import is_number


def check_growth(grow: list | None, lowest: int, dimensions: int = 1) -> None:
    """Raises ValueError unless grow is None or [first size, share of the training until the full one].

    A size is a number of at least `lowest`, or a list of so many as it has dimensions.
    """
    if grow is None:
        return
    first, share = grow if len(grow) == 2 else (None, None)
    size = first if dimensions > 1 and isinstance(first, (list, tuple)) else [first]
    typed = len(size) == dimensions and all(is_number(n) for n in [*size, share])
    if not (typed and min(size) >= lowest and 0 < share <= 1):
        wanted = f"size of at least {lowest}" if dimensions == 1 else f"[{dimensions} numbers of at least {lowest}]"
        raise ValueError(f"grow must be [{wanted}, share of (0, 1]] or null, got {grow}")


def size_at(grow: list[float] | None, full: int, progress: float) -> int:
    """The size after a share `progress` of the training: linear from the first, or from the full one if smaller."""
    if grow is None or grow[0] >= full:
        return full
    first, share = grow
    return round(first + min(1.0, progress / share) * (full - first))
