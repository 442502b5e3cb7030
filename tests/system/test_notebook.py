"""The notebook of examples/ runs from the first cell to the last."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.helpers.commands import ROOT

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"


def code_of(cell: dict) -> str:
    return "".join(cell["source"])


@pytest.mark.slow
def test_the_cells_run_in_their_order(tmp_path):
    """In a process of its own, in a folder beside the files it reads; its own checks are what it prints."""
    pytest.importorskip("pyvrp")
    for name in ("tests", "pretrained"):
        (tmp_path / name).symlink_to(ROOT / name)
    cells = [code_of(cell) for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 8
    script = "\n".join(["import matplotlib", "matplotlib.use('agg')", *cells])
    env = {"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "GUMBELDORE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    probabilities = [line.split("probability ")[1] for line in lines if line.startswith("length ")]
    assert len(probabilities) == 8 and 0 < sum(map(float, probabilities)) <= 1
    (longer,) = [line.rsplit("by ", 1)[1] for line in lines if line.startswith("policy ")]
    assert -0.001 <= float(longer.rstrip("%")) / 100 < 0.1
    assert not (tmp_path / "my_policy.pt").exists()
