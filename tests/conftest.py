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


@pytest.fixture(scope="session")
def policies(tmp_path_factory):
    """A folder with checkpoints of untrained policies by problem."""
    from tests.helpers.evaluations import untrained  # needs Hydra, which the tests for a GPU do without

    return untrained(tmp_path_factory.mktemp("policies"))
