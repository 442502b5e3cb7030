"""How much of an instance a policy sees."""

from __future__ import annotations

from gumbeldore.runtime.checked import is_integer


def check_view(name: str, value: int | str | None) -> int | None:
    """How much is in view; None for all of it. Raises ValueError that begins with `name` for other values."""
    if value is None or value == "all":
        return None
    if not is_integer(value) or value < 1:
        raise ValueError(f"{name} must be at least 1, all or null, got {value}")
    return value
