"""Evaluations that are refused, in one line, before anything is done."""

from __future__ import annotations

import sys

import pytest

import evaluate
from tests.helpers.commands import refused
from tests.helpers.evaluations import DATA


@pytest.mark.parametrize(
    ("problem", "words", "message"),
    [
        ("tsp", "instances=kool/tsp21", "unknown source 'kool/tsp21'"),
        ("tsp", "instances=kool/tsp20 search.beam_width=4", "search.beam_width has no effect on greedy"),
        ("tsp", "instances=kool/tsp20 num_instances=20000", "can be taken, not 20000; num_instances=null takes"),
        ("tsp", "instances=kool/tsp20 method=solver solver.workers=-1", "solver.workers must be an integer of"),
        (
            "tsp",
            "instances=kool/tsp20 compile=true device=cpu",
            "error: compile=true is for a GPU, device=cpu is a CPU: it would search more slowly\n",
        ),
        ("jssp", "instances=data/jssp problem.nearest=5", "error: problem.nearest: jssp has no nearest\n"),
        ("cvrp", "instances=data/cvrplib problem.nearest=0", "nearest must be at least 1, all or null, got 0"),
        ("cvrp", "instances=data/cvrplib problem.capacity=9", "no key problem.capacity; problem has distances, "),
        ("jssp", "instances=data/jssp problem.distances=exact", "error: problem.distances: jssp has no distan"),
        ("tsp", "instances=kool/tsp20 problem.distances=rounded", "kool/tsp20 has exact distances"),
        ("tsp", "instances=data/cvrplib/A-n32-k5.vrp", "got 'CVRP' (the policy of "),
        ("cvrp", "instances=data/jssp", "*.vrp (the policy of "),
        ("tsp", "instances=data/README.md", "README.md: .md is no format of instances "),
        ("cvrp", "instances=data/cvrplib nearest=5", "there is no key nearest; did you mean problem.nearest?"),
        ("cvrp", "instances=kool/tsp20", "cvrp.pt is for cvrp)"),
        ("jssp", "instances=data/berlin52.tsp", "jssp.pt is for jssp)"),
        ("tsp", "instances=kool/tsp20 references=no.csv", "references=no.csv: No such file or directory"),
        ("tsp", "instances=kool/tsp20 method=[]", "method=[]: there must be one method at least"),
        ("tsp", "instances=kool/tsp20 out_dir=data/berlin52.tsp", "berlin52.tsp is not a folder; choose another"),
    ],
)
def test_wrong_evaluations_are_refused(policies, tmp_path, problem, words, message):
    (tmp_path / "data").symlink_to(DATA)
    assert message in refused(evaluate, f"checkpoint={policies / problem}.pt", *words.split(), cwd=tmp_path)


def test_heuristics_without_ortools_are_refused_before_anything_is_solved(policies, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.constraint_solver.pywrapcp", None)
    words = [f"checkpoint={policies}/tsp.pt", "instances=kool/tsp20", "method=[greedy,heuristic]", "workers=0"]
    assert "method=heuristic needs OR-Tools for problem tsp: pip install" in refused(evaluate, *words, cwd=tmp_path)
