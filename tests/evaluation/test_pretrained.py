"""The shipped policies load and are as good as their card says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gumbeldore.evaluation.loading import load_policy
from gumbeldore.evaluation.solved_sets import solve_set, summarise
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods
from tests.helpers.instance_files import write_tsp

FOLDER = Path(__file__).parents[2] / "pretrained"

# name -> instances, and a greedy gap that a policy of about the card's quality stays below on the first 50 of them
SHIPPED = {
    "tsp20": ("kool/tsp20", 0.015),
    "tsp50": ("kool/tsp50", 0.03),
    "tsp100": ("kool/tsp50", 0.04),
    "cvrp20": ("kool/cvrp20", 0.05),
    "cvrp50": ("kool/cvrp20", 0.06),
    "cvrp100": ("kool/cvrp20", 0.08),
    "jssp15x15": ("l2d/6x6", 0.05),
    "jssp6x6": ("l2d/6x6", 0.05),
    "jssp_tardiness": ("validation/10x10", 0.25),
    "fjsp": ("validation/10x5", 0.09),
}


def test_every_shipped_policy_has_a_card_and_is_tested():
    folders = {path.parent.name for path in FOLDER.glob("*/best.pt")}
    card = (FOLDER / "README.md").read_text()
    assert folders == set(SHIPPED) and all(f"`{name}`" in card for name in folders)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=pytest.mark.slow) if x != "tsp20" else x for x in SHIPPED],
)
def test_shipped_policies_are_as_good_as_their_card_says(name):
    source, most = SHIPPED[name]
    problem, policy, *_ = load_policy(FOLDER / name)
    (instance_set,) = problem.load(source, 50)
    with SearchPool(problem, policy) as pool:
        greedy = solve_set(pool, instance_set, methods.Greedy(), seed=0)
        sampled = solve_set(pool, instance_set, methods.Gumbeldore(8, 2, 0.3), seed=0)
    gap, sampled_gap = (summarise([found], [instance_set]).mean_gap for found in (greedy, sampled))
    assert sampled_gap < gap < most


def test_shipped_files_are_small():
    assert all(path.stat().st_size < 3e6 for path in FOLDER.rglob("*.pt"))


def test_a_shipped_policy_is_found_by_its_name(tmp_path, monkeypatch):
    """From any folder; a file or folder of the user's comes first."""
    monkeypatch.chdir(tmp_path)
    assert load_policy("tsp20").path == FOLDER / "tsp20" / "best.pt"
    rule = "there is no checkpoint tsp21; policies that are shipped: cvrp20, cvrp50, cvrp100, fjsp, jssp6x6"
    with pytest.raises(ValueError, match=rule):
        load_policy("tsp21")
    (tmp_path / "tsp20").mkdir()
    with pytest.raises(ValueError, match="there is no checkpoint tsp20/checkpoints/best.pt"):
        load_policy("tsp20")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The package, built from the sources that git knows and installed into a folder outside of the checkout."""
    root, folder = FOLDER.parent, tmp_path_factory.mktemp("wheel")
    names = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, names):
        (folder / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / "sources" / name)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", "site", "./sources"]
    subprocess.run(pip, cwd=folder, check=True)
    return folder / "site"


@pytest.mark.slow
def test_an_installed_wheel_holds_policies_configurations_and_data(site):
    names = subprocess.run(["git", "ls-files"], cwd=FOLDER.parent, check=True, capture_output=True, text=True)
    kinds = {".pt", ".yaml", ".html", ".css", ".npz", ".csv", ".gz", ".jsonl"}
    packages = ("gumbeldore/", "problems/", "models/", "configs/", "pretrained/")
    needed = [name for name in names.stdout.split("\n") if name.startswith(packages) and Path(name).suffix in kinds]
    assert len(needed) > 50 and all((site / name).is_file() for name in needed)
    assert not (site / "tests").exists() and not (site / "benchmarks").exists()


@pytest.mark.slow
def test_an_installed_wheel_evaluates_trains_and_studies(site, tmp_path):
    """By the names of its programs, with the packages of this environment."""
    environment = os.environ | {"PYTHONPATH": str(site)}

    def run(program: str, *words: str) -> str:
        command = [sys.executable, str(site / "bin" / program), *words]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    write_tsp(tmp_path / "mine.tsp", [(0, 0), (0, 10), (10, 10), (10, 0)])
    assert "│  40 │" in run("gumbeldore-evaluate", "checkpoint=tsp20", "instances=mine.tsp", "out_dir=found")
    assert {"report.html", "results.json"} <= {path.name for path in (tmp_path / "found").iterdir()}
    few = ["instances=kool/tsp20", "num_instances=2", "workers=0"]
    trained = run("gumbeldore-train", "problem=tsp", "debug=fast", "run_dir=trained")
    assert "gumbeldore-evaluate checkpoint=trained" in trained and "python evaluate.py" not in trained
    run("gumbeldore-evaluate", "checkpoint=trained", *few)
    run("gumbeldore-study", "checkpoint=trained", *few, "repetitions=2", "search.num_rounds=[1,2]", "out_dir=study")
    assert (tmp_path / "study/study.png").is_file()
    assert "gumbeldore-train problem=tsp" in run("gumbeldore-train", "--help")
    where = [sys.executable, "-c", "import gumbeldore, models; print(gumbeldore.__file__, models.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert all(Path(name).is_relative_to(site) for name in found.split())
