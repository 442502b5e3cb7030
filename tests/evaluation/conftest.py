"""What the tests of several evaluations need."""

from __future__ import annotations

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Solvers are installed, and nothing that they found before is known."""
    for package in ("pyvrp", "ortools"):
        pytest.importorskip(package)
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))
