"""The shipped policies load and are as good as their card says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gumbeldore.evaluation.benchmarks import solve_benchmark, summarise
from gumbeldore.evaluation.loading import load_policy
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods

FOLDER = Path(__file__).parents[2] / "pretrained"

# name -> instances, and a greedy gap that a policy of about the card's quality stays below on the first 50 of them
SHIPPED = {
    "tsp20": ("kool/tsp20", 0.015),
    "tsp50": ("kool/tsp50", 0.03),
    "cvrp20": ("kool/cvrp20", 0.05),
    "cvrp50": ("kool/cvrp20", 0.06),
    "jssp6x6": ("l2d/6x6", 0.05),
}


def test_every_shipped_policy_has_a_card_and_is_tested():
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    card = (FOLDER / "README.md").read_text()
    assert folders == set(SHIPPED) and all(f"`{name}`" in card for name in folders)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_are_as_good_as_their_card_says(name):
    source, most = SHIPPED[name]
    problem, policy, *_ = load_policy(FOLDER / name)
    (benchmark,) = problem.load(source, 50)
    with SearchPool(problem, policy) as pool:
        greedy = solve_benchmark(pool, benchmark, methods.greedy(), seed=0)
        sampled = solve_benchmark(pool, benchmark, methods.gumbeldore(8, 2, step_size=0.3), seed=0)
    gap, sampled_gap = (summarise([found], [benchmark]).mean_gap for found in (greedy, sampled))
    assert sampled_gap < gap < most


def test_shipped_files_are_small():
    assert all(path.stat().st_size < 3e6 for path in FOLDER.rglob("*.pt"))


def test_a_shipped_policy_is_found_by_its_name(tmp_path, monkeypatch):
    """From any folder; a file or folder of the user's comes first."""
    monkeypatch.chdir(tmp_path)
    assert load_policy("tsp20").path == FOLDER / "tsp20" / "best.pt"
    with pytest.raises(ValueError, match="there is no checkpoint tsp21; policies that are shipped: cvrp20, cvrp50"):
        load_policy("tsp21")
    (tmp_path / "tsp20").mkdir()
    with pytest.raises(ValueError, match="there is no checkpoint tsp20/checkpoints/best.pt"):
        load_policy("tsp20")


@pytest.mark.slow
def test_an_installed_wheel_holds_policies_and_configurations(tmp_path):
    """Built from the sources that git knows; used outside of the checkout, with the packages of this environment."""
    root, sources, site = FOLDER.parent, tmp_path / "sources", tmp_path / "site"
    names = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, names):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, sources / name)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(sources)]
    subprocess.run(pip, check=True)
    words = ["checkpoint=tsp20", "instances=kool/tsp20", "num_instances=2", "workers=0", "out_dir=found"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    subprocess.run([sys.executable, "-m", "evaluate", *words], cwd=tmp_path, env=environment, check=True)
    where = [sys.executable, "-c", "import gumbeldore, models; print(gumbeldore.__file__, models.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert all(Path(name).is_relative_to(site) for name in found.split())
    assert (tmp_path / "found/results.json").is_file()
