"""Training instances that grow: a small problem is learnt in seconds, and most of it is true of larger ones."""

from __future__ import annotations


def check_growth(grow: list[float] | None, lowest: int) -> None:
    """Raises ValueError unless grow is None or [first size, share of the training until the full one]."""
    if grow is not None and not (len(grow) == 2 and grow[0] >= lowest and 0 < grow[1] <= 1):
        raise ValueError(f"grow must be [size of at least {lowest}, share of (0, 1]] or null, got {list(grow)}")


def size_at(grow: list[float] | None, full: int, progress: float) -> int:
    """The size after a share `progress` of the training: linear from the first, or from the full one if smaller."""
    if grow is None or grow[0] >= full:
        return full
    first, share = grow
    return round(first + min(1.0, progress / share) * (full - first))
