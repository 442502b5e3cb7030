"""The shipped policies load, are as good as their card says, and are chosen for instances whose user names none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evaluate
from gumbeldore import SearchPool, load_policy, methods
from gumbeldore.evaluation.choosing import BEST_AT, choose_policies
from gumbeldore.evaluation.solved_sets import solve_set, summarise
from gumbeldore.seeding import generator
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import done
from tests.helpers.evaluations import DATA, Evaluation
from tests.helpers.instance_files import write_tsp, write_vrp

FOLDER = Path(__file__).parents[2] / "pretrained"

# name -> instances, and a greedy gap that a policy of about the card's quality stays below on the first 50 of them
CARDS = {
    "tsp20": ("kool/tsp20", 0.015),
    "tsp50": ("kool/tsp50", 0.03),
    "tsp100": ("kool/tsp50", 0.04),
    "tsp_local": ("kool/tsp50", 0.035),
    "cvrp20": ("kool/cvrp20", 0.05),
    "cvrp50": ("kool/cvrp20", 0.06),
    "cvrp100": ("kool/cvrp20", 0.08),
    "jssp": ("l2d/6x6", 0.05),
    "jssp_tardiness": ("validation/10x10", 0.25),
    "fjsp": ("validation/10x5", 0.09),
}


def test_every_shipped_policy_has_a_card_and_is_tested():
    folders = {path.parent.name for path in FOLDER.glob("*/best.pt")}
    card = (FOLDER / "README.md").read_text()
    assert folders == set(CARDS) and all(f"`{name}`" in card for name in folders)


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x != "tsp20" else x for x in CARDS])
def test_shipped_policies_are_as_good_as_their_card_says(name):
    source, most = CARDS[name]
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
    shipped = "cvrp20, cvrp50, cvrp100, fjsp, jssp, jssp_tardiness, tsp20, tsp50, tsp100, tsp_local"
    rule = f"there is no checkpoint tsp21; policies that are shipped: {shipped}"
    with pytest.raises(ValueError, match=rule):
        load_policy("tsp21")
    (tmp_path / "tsp20").mkdir()
    with pytest.raises(ValueError, match="there is no checkpoint tsp20/checkpoints/best.pt"):
        load_policy("tsp20")


def known_files() -> list[str]:
    """What git knows of."""
    listed = subprocess.run(["git", "ls-files"], cwd=FOLDER.parent, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The package, built from the sources that git knows and installed into a folder outside of the checkout."""
    root, folder = FOLDER.parent, tmp_path_factory.mktemp("wheel")
    for name in known_files():
        (folder / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / "sources" / name)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", "site", "./sources"]
    subprocess.run(pip, cwd=folder, check=True)
    return folder / "site"


@pytest.mark.slow
def test_an_installed_wheel_holds_policies_configurations_and_data(site):
    kinds = {".pt", ".yaml", ".html", ".css", ".npz", ".csv", ".gz", ".jsonl"}
    packages = ("gumbeldore/", "problems/", "models/", "configs/", "pretrained/")
    needed = [name for name in known_files() if name.startswith(packages) and Path(name).suffix in kinds]
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


# ---- which is chosen


def chosen(source, limit=None, **values):
    """The names of the instances by the name of their policy."""
    choices = choose_policies(str(source), limit, values)
    return {x.loaded.path.parent.name: sorted(name for b in x.instance_sets for name in b.names) for x in choices}


def customers(folder, *shapes):
    """A file of instances of 30 customers, with capacities; all demands are 5."""
    demands = np.full((len(shapes), 31), 5)
    demands[:, 0] = 0
    coords = np.random.default_rng(0).random((len(shapes), 31, 2))
    np.savez(folder / "x.npz", coords=coords, demands=demands, capacity=np.array(shapes))
    return folder / "x.npz"


def test_the_policy_is_the_nearest_in_size():
    assert chosen(DATA / "berlin52.tsp") == {"tsp50": ["berlin52"]}
    assert chosen(DATA) == {"tsp20": ["ulysses16"], "tsp50": ["att48", "berlin52", "eil51"], "tsp100": ["kroA100"]}
    assert list(chosen(DATA / "cvrplib" / "A-n80-k10.vrp")) == ["cvrp50"]  # 8 customers a route
    assert list(chosen("gd/cvrp200", 3)) == ["cvrp100"]
    assert list(chosen(DATA / "jssp" / "ta01.txt")) == ["jssp"] and list(chosen("l2d/6x6", 3)) == ["jssp"]
    assert list(chosen("kool/tsp20", 3)) == ["tsp20"] and list(chosen("kool/cvrp50", 3)) == ["cvrp50"]
    assert list(chosen("taillard", 3)) == ["jssp"]


def test_policies_are_taken_where_they_were_measured_to_be_the_best(tmp_path):
    """`tsp_local` from 200 nodes on, although `tsp100` has learnt from as many nodes; `jssp` for shops of any size."""
    for jobs, machines in ((6, 6), (15, 15), (20, 20), (30, 20), (50, 15), (100, 20)):
        times = np.ones((1, jobs, machines), dtype=int)
        np.savez(tmp_path / "x.npz", times=times, machines=np.broadcast_to(np.arange(machines), times.shape))
        assert list(chosen(tmp_path / "x.npz")) == ["jssp"]
    for nodes, policy in ((100, "tsp100"), (190, "tsp_local"), (600, "tsp_local")):
        np.savez(tmp_path / "x.npz", coords=np.random.default_rng(0).random((1, nodes, 2)))
        assert list(chosen(tmp_path / "x.npz")) == [policy]


def test_the_list_of_best_sizes_names_policies_and_scales_that_exist():
    for name, scales in json.loads(BEST_AT.read_text()).items():
        problem = load_policy(FOLDER / name).problem
        for scale in scales:
            assert scale.keys() == problem.size_of(problem.generate(1, generator(0, "scale"))).keys()


def test_and_in_capacity(tmp_path):
    """Of 30 customers: cvrp20 was trained with 6 a route, cvrp50 with 4 to 16."""
    assert chosen(customers(tmp_path, 30, 80, 25)) == {"cvrp20": ["x/0", "x/2"], "cvrp50": ["x/1"]}


def test_values_of_the_problem_hold(tmp_path):
    (choice,) = choose_policies(str(DATA / "berlin52.tsp"), None, {"distances": "exact", "nearest": None})
    assert choice.loaded.problem.distances == "exact" and choice.instance_sets[0].originals.metrics == ["EXACT_2D"]
    with pytest.raises(ValueError, match="tsp has no colour"):
        choose_policies(str(DATA / "berlin52.tsp"), None, {"colour": 3})


@pytest.mark.slow
def test_an_evaluation_solves_each_instance_with_its_policy(tmp_path):
    """As with that policy alone: an instance's samples depend on its place among those of its size and policy."""
    source = customers(tmp_path, 30, 80, 25)
    words, both = [f"instances={source}", "workers=0"], ["method=[greedy,gumbeldore]", "search.beam_width=2"]
    result = done(evaluate, *words, *both, "out_dir=out", cwd=tmp_path)
    assert "policy cvrp20 for 2 instances (customers 30, customers a route 5 to 6)" in result.stdout
    assert "policy cvrp50 for x/1 (customers 30, customers a route 16)" in result.stdout
    found = Evaluation(tmp_path / "out", result.stdout)
    assert [row["instance"] for row in found.rows] == ["x/0", "x/2", "x/1"] * 2
    assert found.methods["greedy"]["num_instances"] == 3
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert content["methods"]["greedy"]["by_size"]["30"]["num_instances"] == 3
    assert "policy cvrp20" in content["policy"] and "cvrp50/best.pt" in content["checkpoint"]
    for policy, instances in (("cvrp20", ["x/0", "x/2"]), ("cvrp50", ["x/1"])):
        done(evaluate, *words, f"checkpoint={policy}", f"out_dir={policy}", cwd=tmp_path)
        costs = {row["instance"]: row["cost"] for row in Evaluation(tmp_path / policy, "").rows}
        ours = {row["instance"]: row["cost"] for row in found.of("greedy") if row["instance"] in instances}
        assert ours == {name: costs[name] for name in instances}
    done(evaluate, *words, *both, "out_dir=out", "resume=true", cwd=tmp_path)
    assert Evaluation(tmp_path / "out", "").rows == found.rows


def test_what_is_left_out_is_said_once(tmp_path):
    for capacity in (20, 100):
        write_vrp(tmp_path / f"{capacity}.vrp", [(i % 7, i % 5) for i in range(31)], [0] + [5] * 30, capacity)
    (tmp_path / "broken.vrp").write_text("no")
    choices = choose_policies(str(tmp_path), None, {})
    assert len(choices) == 2
    assert sum(len(instance_set.left_out) for choice in choices for instance_set in choice.instance_sets) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.tsp", "instances=nowhere.tsp is neither a file or folder nor a standard set"),
        ("kool/tsp21", "instances=kool/tsp21 is neither a file or folder nor a standard set"),
        ("broken.vrp", "broken.vrp, line 1: a header line is"),  # its suffix says whose it is
        ("~nobody/x.tsp", "instances=~nobody/x.tsp is neither a file or folder nor a standard set"),
        ("broken", "it is not clear which problem instances=.* is of .*tsp: .*; policies that are shipped: cvrp20"),
        ("x.npy", r"^\S+x\.npy: this is a \.npy, one array; .*coords=coords\)$"),  # which all problems say, once
        ("folder", r"it is not clear which problem .* no files \S+/\*\.vrp; .*\*\.tsp"),
    ],
)
def test_what_no_policy_can_read_is_refused(source, message, tmp_path):
    for name in ("broken", "broken.vrp"):
        (tmp_path / name).write_text("NAME\n1 2 3\n")
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    (tmp_path / "folder").mkdir()
    np.savez(tmp_path / "folder/x.npz", coords=np.zeros((1, 3, 2)))
    if (tmp_path / source).exists():
        source = str(tmp_path / source)
    with pytest.raises(ValueError, match=message):
        choose_policies(source, None, {})


def test_what_several_problems_can_read_is_refused(monkeypatch):
    monkeypatch.setattr(JSSP, "load", lambda self, source, limit: TSP(20).load(source, limit))
    with pytest.raises(ValueError, match=r"can be read for several problems \(jssp, tsp\): name a policy"):
        choose_policies("kool/tsp20", 1, {})


def test_a_policy_is_chosen_for_its_objective(tmp_path):
    """Makespans for one policy, weighted tardiness for another; of total flow times none is shipped."""
    random = np.random.default_rng(0)
    times, machines = random.integers(1, 99, (1, 10, 10)), random.random((1, 10, 10)).argsort(axis=2)
    np.savez(tmp_path / "late.npz", times=times, machines=machines, due=times.sum(axis=2))
    assert set(chosen(tmp_path / "late.npz")) == {"jssp"}
    assert set(chosen(tmp_path / "late.npz", objective="weighted_tardiness")) == {"jssp_tardiness"}
    with pytest.raises(ValueError, match="no policy that is shipped minimises the total_flow_time for jssp; name"):
        chosen(tmp_path / "late.npz", objective="total_flow_time")
    with pytest.raises(ValueError, match="objective must be one of makespan, total_flow_time, weighted_tardiness, got"):
        chosen(tmp_path / "late.npz", objective="lateness")
    with pytest.raises(ValueError, match="tsp has no objective"):
        chosen("kool/tsp20", objective="makespan")
    flexible = np.stack([times, times + 1], axis=3)
    np.savez(tmp_path / "flexible.npz", times=flexible, due=times.sum(axis=2))
    with pytest.raises(ValueError, match="no policy that is shipped minimises the weighted_tardiness for fjsp; name"):
        chosen(tmp_path / "flexible.npz", objective="weighted_tardiness")
