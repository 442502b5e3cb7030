"""Evaluations of instances whose distances are a matrix, from the file to the report."""

from __future__ import annotations

import html
import itertools
import json

import numpy as np

import study
from problems.formats.tsplib import read_tour
from tests.helpers.commands import done
from tests.helpers.evaluations import evaluated
from tests.helpers.matrices import length, random_matrix, write_matrix

MATRIX = random_matrix(7, diagonal=1e8)


def test_tours_with_directions_are_evaluated_and_the_map_is_remarked_on(policies, tmp_path):
    file = write_matrix(tmp_path / "mine.atsp", MATRIX, kind="ATSP")
    words = ["method=[greedy,gumbeldore,heuristic]", "search.num_rounds=4", "search.beam_width=16"]
    found = evaluated(policies / "tsp.pt", tmp_path, f"instances={file}", *words)
    for row in found.rows:
        tour = list(map(int, row["solution"].split()))
        assert sorted(tour) == list(range(7)) and float(row["cost"]) == length(MATRIX, tour)
        assert read_tour(found.folder / "solutions" / row["method"].replace(": ", "_") / "mine.tour") == tour
    (content,) = json.loads((found.folder / "results.json").read_text())["remarks"]
    assert content.startswith(
        "the instances have distances of their own: costs are by these, but the policy sees a map"
    )
    assert html.escape(content) in (found.folder / "report.html").read_text()
    assert content[:60] in " ".join(found.output.split())
    # 64 of 720 tours, the best by its true cost: a policy that knew nothing would find one of the best tenth.
    every = sorted(length(MATRIX, [0, *rest]) for rest in itertools.permutations(range(1, 7)))
    assert float(found.of("gumbeldore")[0]["cost"]) <= every[72]
    assert "Christofides" not in found.output


def test_arrays_are_studied_with_the_remark(policies, tmp_path):
    np.savez(tmp_path / "mine.npz", distances=np.stack([MATRIX, MATRIX.T]) / 3)
    words = [f"instances={tmp_path / 'mine.npz'}", "search.num_rounds=[1,2]", "repetitions=2", "workers=0"]
    words += [f"checkpoint={policies / 'tsp.pt'}", f"out_dir={tmp_path / 'out'}", "method=wor", "num_instances=2"]
    result = done(study, *words, cwd=tmp_path)
    assert "distances of their own" in result.stdout
    (remark,) = json.loads((tmp_path / "out" / "study.json").read_text())["remarks"]
    assert "on average (by" in remark
