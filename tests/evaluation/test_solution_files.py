"""Solutions as files for other programs."""

from __future__ import annotations

import re

import torch

from problems.formats.cvrplib import read_solution
from problems.formats.tsplib import read_tour, read_tsplib, tour_lengths
from tests.helpers.evaluations import DATA, evaluated


def test_tours_are_written_as_files_that_are_read_back(policies, tmp_path):
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={DATA}", "num_instances=2", "method=[greedy,beam]")
    files = sorted(path.relative_to(found.folder / "solutions") for path in found.folder.glob("solutions/**/*.*"))
    assert [str(file) for file in files] == [f"{m}/{n}.tour" for m in ("beam", "greedy") for n in ("att48", "berlin52")]
    for row in found.rows:
        tour = read_tour(found.folder / "solutions" / row["method"] / f"{row['instance']}.tour")
        assert tour == list(map(int, row["solution"].split()))
        instance = read_tsplib(DATA / f"{row['instance']}.tsp")
        length = tour_lengths(torch.from_numpy(instance.coords), torch.tensor([tour]), instance.metric)
        assert length.item() == float(row["cost"])


def test_routes_are_written_as_files_that_are_read_back(policies, tmp_path):
    """As the reference beside its file, a solution has the gap 0."""
    file = tmp_path / "mine" / "A-n32-k5.vrp"
    file.parent.mkdir()
    text = (DATA / "cvrplib" / "A-n32-k5.vrp").read_text()
    file.write_text(text.replace(" 2 96 44", " 2 96 45"))  # of which nothing is published
    found = evaluated(policies / "cvrp.pt", tmp_path, f"instances={file}")
    (tmp_path / file.name).write_text(file.read_text())
    written = found.folder / "solutions" / "greedy" / "A-n32-k5.sol"
    routes, cost = read_solution(written, 31)
    assert cost == float(found.rows[0]["cost"]) and len(routes) == float(found.rows[0]["routes"])
    walk = [0, *(node for route in routes for node in (*route, 0))]
    assert walk == list(map(int, found.rows[0]["solution"].split()))
    (tmp_path / "A-n32-k5.sol").write_text(written.read_text())
    again = evaluated(policies / "cvrp.pt", tmp_path, f"instances={tmp_path / file.name}", out="again")
    assert again.rows[0]["kind"] == "solution file (.sol)" and float(again.rows[0]["gap"]) == 0


def test_long_names_are_cut_in_file_names(policies, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for end in "ab":
        text = (DATA / "ulysses16.tsp").read_text().replace("NAME: ulysses16.tsp", f"NAME: {'ü' * 400}{end}")
        (folder / f"{end}.tsp").write_text(text)
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    written = [path.name for path in tmp_path.glob("**/*.tour")]
    assert len(written) == 2 and all(re.fullmatch("ü{50}-[0-9a-f]{8}.tour", name) for name in written)
    assert {row["instance"] for row in found.rows} == {"ü" * 400 + "a", "ü" * 400 + "b"}


def test_sets_without_files_get_none(policies, tmp_path):
    found = evaluated(policies / "tsp.pt", tmp_path, "instances=kool/tsp20", "num_instances=2")
    assert not (found.folder / "solutions").exists() and "solutions/" not in found.output


def test_names_of_instances_do_not_lead_out_of_the_folder(policies, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    text = (DATA / "ulysses16.tsp").read_text()
    for file, name in (("a.tsp", "../../../x y/z"), ("b.tsp", "x_y_z-2"), ("c.tsp", "x y/z")):
        (folder / file).write_text(text.replace("NAME: ulysses16.tsp", f"NAME: {name}"))
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={folder}")
    names = sorted(path.name for path in tmp_path.glob("**/*.tour"))
    assert names == ["x_y_z-2.tour", "x_y_z-3.tour", "x_y_z.tour"]
    assert {path.parent for path in tmp_path.glob("**/*.tour")} == {found.folder / "solutions" / "greedy"}
