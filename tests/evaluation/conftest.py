"""What the tests of several evaluations need."""

from __future__ import annotations

import pytest

from tests.helpers.evaluations import untrained


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Solvers are installed, and nothing that they found before is known."""
    for package in ("pyvrp", "ortools"):
        pytest.importorskip(package)
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def policies(tmp_path_factory):
    """A folder with checkpoints of untrained policies by problem."""
    return untrained(tmp_path_factory.mktemp("policies"))
