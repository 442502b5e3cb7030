"""What the tests of several problems need."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing that solvers found before is known."""
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))
