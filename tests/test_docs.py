"""The pages of docs/: their code and commands run as they are written there."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import gumbeldore
import train
from docs import keys
from docs.figures import method, over_time, overlay, races, solution, trie
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.words import check_overrides
from gumbeldore.studies.curves import CurvePoint
from tests.helpers.commands import ROOT, compose, refused
from tests.helpers.pages import FENCE, files_of, page, write

PAGES = sorted((ROOT / "docs").glob("*.md"))
OTHER_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pretrained/README.md")]


def commands_of(text: str) -> str:
    """The commands of a page, one script."""
    return "".join(code for language, _, code in FENCE.findall(text) if language == "bash")


def run(script: str, folder: Path) -> None:
    """A shell script in `folder`, where the commands of an installation are those of this checkout."""
    commands = folder / "bin"
    commands.mkdir()
    programs = {f"gumbeldore-{name}": f"{ROOT}/{name}.py" for name in ("train", "evaluate", "study")}
    for name, program in {**programs, "pytest": "-m pytest", "python": ""}.items():
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {program} "$@"\n')
        (commands / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    env["OMP_NUM_THREADS"] = "1"  # threads of such small networks only wait for each other
    done = subprocess.run(["bash", "-ec", script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_new_problem_works_as_written(tmp_path):
    """Checked, trained and evaluated by the page's own commands: far better than random, samples near the optimum."""
    text = page("add-a-problem")
    files = files_of(text)
    lines = sum(len(files[name].splitlines()) for name in ("flowshop.py", "problem/flowshop.yaml"))
    assert lines <= 120 and f"in {lines} lines" in text
    write(files, tmp_path)
    run(commands_of(text), tmp_path)

    with np.load(tmp_path / "flowshop.npz") as arrays:
        times, optimum = torch.from_numpy(arrays["instance.times"]), torch.from_numpy(arrays["costs"])
    reached = json.loads((tmp_path / "results" / "results.json").read_text())["methods"]
    random = random_gap(times, optimum)
    assert 0 <= reached["gumbeldore"]["mean_gap"] < 0.01 < reached["heuristic"]["mean_gap"] < random / 2
    assert reached["greedy"]["mean_gap"] < random / 2
    assert f"{random:.0%}" in text


def test_the_problem_that_maximises_works_as_written(tmp_path, monkeypatch):
    """Its own test passes; a search finds the optimum of minus the value, given as a reference, and no picture."""
    write(files_of(page("add-a-problem")), tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("test_knapsack").test_contract()
    problem = importlib.import_module("knapsack").Knapsack(6)
    things = problem.generate(2, torch.Generator().manual_seed(0))
    subsets = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6)))
    fits = things.weights @ subsets.T <= things.capacity[:, None]
    best = (things.values @ subsets.T).masked_fill(~fits, 0).amax(dim=1)
    arrays = {name: field.numpy() for name, field in things._asdict().items()}
    np.savez(tmp_path / "things.npz", **arrays, cost=-best.numpy(), reference="optimal")
    choices = problem.num_choices(things, torch.tensor([[0, 6, 6, 6, 6, 6], [0, 1, 2, 6, 6, 6]]))
    assert choices.tolist() == [1, 3]

    class Uniform(gumbeldore.Policy):
        def forward(self, context, state):
            return torch.zeros(len(context.values), 7)

    every = gumbeldore.methods.WithoutReplacement(256, 1)
    found = gumbeldore.solve((problem, Uniform()), tmp_path / "things.npz", method=every)
    assert [x.cost for x in found] == [x.reference for x in found] == (-best).tolist()
    assert found[0].gap == 0 and found[0]._repr_png_() is None
    np.savez(tmp_path / "wrong.npz", **arrays, cost=np.array([-np.inf, -1.0]))
    with pytest.raises(ValueError, match="cost must be 2 finite numbers, or NaN or 0 where unknown, got -inf at 0"):
        problem.load(str(tmp_path / "wrong.npz"))


@pytest.mark.slow
def test_the_new_network_works_as_written(tmp_path):
    """It is not good after seconds, but far from random tours, which are about 180% longer than the shortest."""
    text = page("extend")
    write(files_of(text), tmp_path)
    run(commands_of(text), tmp_path)
    reached = json.loads((tmp_path / "results" / "results.json").read_text())["methods"]
    assert reached["greedy"]["mean_gap"] < 0.6 and reached["gumbeldore"]["mean_gap"] < 0.6


@pytest.mark.slow
def test_the_studies_run_as_written(tmp_path):
    """With smaller numbers: the page's take minutes."""
    script = commands_of(page("studies"))
    short = "debug=fast train.instances_per_epoch=2 model.layers=1 model.width=16"
    script = script.replace("time_limit=60", short).replace(
        "num_instances=20", "num_instances=2 repetitions=2 workers=0"
    )
    script = script.replace("num_instances=100", "num_instances=3 race.first_batch=2 workers=0")
    script = script.replace("python -m docs.figures.races", "true")  # a test below draws it
    assert script.count("repetitions=2") == 2 and short in script
    run(script, tmp_path)
    studies = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("evaluations/*/study.json"))]
    *curves, race = studies
    assert [sorted({x["curve"].split(",")[0] for x in study["points"]}) for study in curves] == [
        ["gumbeldore"],
        ["greedy", "gumbeldore", "sampling", "wor"],
    ]
    assert len(race["arms"]) == 6 and race["chosen"].keys() == {"step_size", "top_p_start"}


def test_the_race_of_the_page_ends_as_written(capsys):
    (code,) = [code for language, _, code in FENCE.findall(page("studies")) if language == "python"]
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[0] == "1 1350" and "# 1, and 1350: of 50,000 rewards" in code


def random_gap(times: torch.Tensor, optimum: torch.Tensor, orders: int = 1000) -> float:
    """How far random orders are above the optimum, by the textbook's recursion."""
    n, jobs, machines = times.shape
    order = torch.rand(n, orders, jobs, generator=torch.Generator().manual_seed(0)).argsort(dim=2)
    ends = torch.zeros(n, orders, machines + 1, dtype=torch.float64)
    for place in range(jobs):
        for machine in range(machines):
            lasts = times[:, :, machine].gather(1, order[..., place])
            ends[..., machine + 1] = torch.maximum(ends[..., machine], ends[..., machine + 1]) + lasts
    return (ends[..., -1] / optimum[:, None] - 1).mean().item()


def test_configs_outside_the_repository_are_checked_too(tmp_path):
    write({"problem/flowshop.yaml": files_of(page("add-a-problem"))["problem/flowshop.yaml"]}, tmp_path)
    check_overrides(["problem=flowshop", "problem.num_jobs=3", "model.width=4"], "train", str(tmp_path))
    with pytest.raises(ValueError, match="there is no key problem.num_job; problem has num_jobs, num_machines"):
        check_overrides(["problem=flowshop", "problem.num_job=3"], "train", str(tmp_path))
    with pytest.raises(ValueError, match="--config-dir: there is no folder nowhere"):
        check_overrides(["problem=flowshop"], "train", "nowhere")
    for problem, message in (
        ("flowshp", "problem=flowshp: there is no such option; there are cvrp, fjsp, flowshop, gomoku, jssp, tsp"),
        ("flowshop", "No module named 'flowshop'; is its folder in PYTHONPATH?"),
    ):
        assert message in refused(train, "--config-dir", str(tmp_path), f"problem={problem}", cwd=tmp_path)


@pytest.mark.parametrize("path", [*PAGES, *OTHER_PAGES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_links_lead_somewhere(path):
    for target, heading in re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]+))?\)", path.read_text()):
        page = path.parent / target if target else path
        assert page.exists(), f"{path.name}: {target}"
        assert not heading or heading in headings_of(page), f"{path.name}: {target}#{heading}"


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130, "more belongs on the pages of docs/"


def headings_of(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_reference_of_the_keys_is_that_of_the_configurations():
    assert page("config") == keys.page(), "python -m docs.keys writes the page anew"


def test_the_public_names_are_those_of_the_page(tmp_path, monkeypatch):
    text = page("api")
    table = text.partition("## The public names")[2]
    table = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)", table)) == set(gumbeldore.__all__) and 10 <= len(gumbeldore.__all__) <= 17
    assert all(getattr(gumbeldore, name).__doc__ for name in gumbeldore.__all__)
    modules = re.findall(r"\| `(\S+\.py)` \|$", text, re.MULTILINE)
    assert len(modules) > 8 and all((ROOT / "gumbeldore" / module).is_file() for module in modules)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    blocks = [code for language, _, code in FENCE.findall(text) if language == "python"]
    assert len(blocks) == 5
    names = [{} for _ in blocks]
    for code, found in zip(blocks, names, strict=True):
        exec(compile(code.replace("pretrained/", f"{ROOT}/pretrained/"), "api.md", "exec"), found)
    by_hand = names[2]
    given = by_hand["problem"], by_hand["policy"], by_hand["mine"].instances
    assert torch.equal(by_hand["actions"], gumbeldore.search(*given, gumbeldore.methods.Greedy()).best()[0])
    assert (tmp_path / "berlin52.tour").exists() and (tmp_path / "berlin52.png").exists()


def test_every_key_is_explained():
    """Every argument of a problem or a network, and every field of a class of settings, has a row with words."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \|.*\| (.*)\|$", page("config"), re.MULTILINE))
    for command in ("train", "evaluate", "study"):
        composed = Configuration(compose(command, *(["checkpoint=a", "instances=b"] * (command != "train"))), [])
        unexplained = {key for key in composed.flat() if not rows.get(key, "").strip()}
        unexplained = {key for key in unexplained if not key.startswith(("methods.", "additions."))}
        assert unexplained <= {"problem._target_", "model._target_", "train.algorithm", "kind"}


def test_the_picture_shows_probabilities_of_a_real_search():
    picture = trie.picture_of_a_search()
    for nodes in (picture.before, picture.after):
        totals = {}
        for node in nodes:
            totals[node.prefix[:-1]] = totals.get(node.prefix[:-1], 0.0) + node.probability
        assert len(totals) == 10  # the root and three paths of three nodes
        assert all(total == pytest.approx(1) for parent, total in totals.items() if len(parent) < 3)
    assert [node.probability for node in picture.after if node.leaf is not None] == [0, 0, 0]
    leaf, *_ = (node for node in picture.before if node.leaf == 2)
    coords = trie.INSTANCE.coords[0][[0, *leaf.prefix, 0]]
    assert picture.lengths[2] == pytest.approx((coords[1:] - coords[:-1]).norm(dim=1).sum().item())
    assert f"{picture.lengths[1]:.2f}" in page("how-it-works")


def test_the_picture_of_the_arrays_is_that_of_a_real_search():
    found, leaves = overlay.after_a_round()
    rows, slots = overlay.rows_of_slots(found, overlay.DEPTH + 1)
    ways = [overlay.prefix_of(found, overlay.DEPTH + 1, slot) for slot in slots]
    assert {tuple(way[: len(ways[0])]) for way in leaves.actions[0].tolist()} == set(ways)
    assert set(ways[-2][:2]) == set(ways[-1][:2]) and ways[-2][2] == ways[-1][2]  # one state
    assert all(cell in (ROOT / "docs/figures/overlay.svg").read_text() for row in rows for cell in row)


def test_the_picture_of_the_method_has_no_page_behind_it(tmp_path):
    """On dark pages it is as readable as on light ones: the boxes alone are filled."""
    out = tmp_path / "method.svg"
    method.main(out)
    for text in (out.read_text(), (ROOT / "docs/figures/method.svg").read_text()):
        background = text.partition('<g id="patch_1">')[2].partition("</g>")[0]
        assert "fill: none" in background and text.count(f"fill: {method.BOX}") == len(method.STEPS)


def test_the_picture_of_a_solution_is_that_of_the_policy():
    """Circles have the sizes of probabilities, and the last panel shows the whole tour."""
    *panels, last = solution.draw().axes
    for panel, step in zip(panels, solution.MOMENTS, strict=False):
        sizes = panel.collections[2].get_sizes()
        assert sizes.sum() == pytest.approx(600, rel=1e-4) and (sizes > 0).sum() <= 20 - step
        assert len(panel.lines[0].get_xdata()) == step + 1
    assert len(set(zip(*last.lines[0].get_data(), strict=True))) == 20 and len(last.lines[0].get_xdata()) == 21


def test_the_figure_over_time(tmp_path):
    """A panel for each study, a curve for each of its methods, gaps over seconds."""
    gaps = {"solver": (0.3, 0.1), "tasar": (0.2, 0.15)}
    points = [
        CurvePoint(name, 1, gap, None, 1.0, 1.0, seconds)._asdict()
        for name, both in gaps.items()
        for gap, seconds in zip(both, (1.0, 10.0), strict=True)
    ]
    about = {"instances": "a set", "num_instances": 3, "checkpoint": "runs/mine/best.pt", "reference": "optimal"}
    for name in itertools.chain(*over_time.ROWS):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").write_text(json.dumps({**about, "points": points}))
    panels = over_time.draw(tmp_path).axes
    assert [axes.get_title() for axes in panels] == ["a set (3), mine"] * 8
    for axes in panels:
        drawn = {bars.get_label(): bars.lines[0].get_data() for bars in axes.containers}
        assert {name: tuple(y) for name, (_, y) in drawn.items()} == gaps
        assert all(tuple(x) == (1.0, 10.0) for x, _ in drawn.values())


def test_the_figure_of_races(tmp_path, capsys):
    out = tmp_path / "races.png"
    races.main(population=400, repetitions=2, out=out)
    rows = [line for line in capsys.readouterr().out.splitlines() if re.match(r" +0\.0?1 ", line)]
    assert len(rows) == 18 and sum(" race, normal " in row for row in rows) == 6
    assert all(len(re.findall(r"[\d.]+% \( *\d+%\)", row)) == len(races.DELTAS) for row in rows)
    assert out.read_bytes().startswith(b"\x89PNG")
