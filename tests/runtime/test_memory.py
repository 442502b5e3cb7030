"""CPU memory, as the operating systems report it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gumbeldore.runtime.memory import peak_memory


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 1), ("linux", 2**10)])
def test_peak_memory_is_read_in_the_unit_of_the_system(platform, unit, monkeypatch):
    monkeypatch.setattr("gumbeldore.runtime.memory.sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr("resource.getrusage", lambda who: SimpleNamespace(ru_maxrss=3))
    assert peak_memory() == 3 * unit
