"""What the processes that tests start need to know, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.helpers")  # a failure there shows the values, as one in a test does

# Ray's workers read objects of the tests' own classes.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parent.parent), *filter(None, [os.getenv("PYTHONPATH")])]
)
# Tests run side by side (pytest -n) with one thread each: threads of several processes wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"
