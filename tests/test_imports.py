"""Nobody waits for a package that is not needed: `import gumbeldore` and `--help` are little slower than torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"matplotlib", "ray", "tensorboard", "jinja2", "pandas", "scipy", "pyvrp", "ortools", "torch._dynamo"}
OF_COMMANDS = {"hydra", "omegaconf", "rich", "yaml"}  # and not of the library
CODE = """
import sys
import torch
before = set(sys.modules)  # torch's own, which differ between its releases
{}
print("\\nimported:", *set(sys.modules) - before)
"""


def imported(code: str) -> set[str]:
    """The modules that a program imports beyond torch's."""
    command = [sys.executable, "-c", CODE.format(code)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.rpartition("imported: ")[2].split())


def test_the_library_imports_little_but_torch():
    found = imported("import gumbeldore, models, problems")
    assert "gumbeldore.sampler.beam" in found
    assert found.isdisjoint(HEAVY | OF_COMMANDS)


@pytest.mark.parametrize(
    "command", ["train", *(pytest.param(x, marks=pytest.mark.slow) for x in ("evaluate", "study"))]
)
def test_help_waits_for_no_heavy_package(command):
    found = imported(f"import {command}\nsys.argv = ['{command}.py', '--help']\n{command}.main()")
    assert OF_COMMANDS & found and found.isdisjoint(HEAVY)
