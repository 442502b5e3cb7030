"""What the tests of several evaluations need."""

from __future__ import annotations

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    for package in ("pyvrp", "ortools"):
        pytest.importorskip(package)
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))
