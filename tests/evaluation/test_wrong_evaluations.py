"""Evaluations that are refused, in one line, before anything is done."""

from __future__ import annotations

import sys

import pytest

import evaluate
from tests.helpers.commands import typed
from tests.helpers.evaluations import DATA


@pytest.mark.parametrize(
    ("problem", "words", "message"),
    [
        ("tsp", ["instances=kool/tsp21"], "unknown source 'kool/tsp21'"),
        ("tsp", ["instances=kool/tsp20", "search.beam_width=4"], "search.beam_width has no effect on greedy"),
        ("tsp", ["instances=kool/tsp20", "num_instances=20000"], "can be taken, not 20000; num_instances=null takes"),
        (
            "tsp",
            ["instances=kool/tsp20", "method=solver", "solver.workers=-1"],
            "solver.workers must be an integer of",
        ),
        (
            "tsp",
            ["instances=kool/tsp20", "compile=true", "device=cpu"],
            "error: compile=true is for a GPU, device=cpu is a CPU: it would search more slowly\n",
        ),
        ("jssp", [f"instances={DATA}/jssp", "problem.nearest=5"], "error: problem.nearest: jssp has no nearest\n"),
        ("cvrp", [f"instances={DATA}/cvrplib", "problem.nearest=0"], "nearest must be at least 1, all or null, got 0"),
        (
            "cvrp",
            [f"instances={DATA}/cvrplib", "problem.capacity=9"],
            "no key problem.capacity; problem has distances, ",
        ),
        ("jssp", [f"instances={DATA}/jssp", "problem.distances=exact"], "error: problem.distances: jssp has no distan"),
        ("tsp", ["instances=kool/tsp20", "problem.distances=rounded"], "kool/tsp20 has exact distances"),
        ("tsp", [f"instances={DATA}/cvrplib/A-n32-k5.vrp"], "got 'CVRP' (the policy of "),
        ("cvrp", [f"instances={DATA}/jssp"], "*.vrp (the policy of "),
        ("tsp", [f"instances={DATA}/README.md"], "README.md: .md is no format of instances "),
        (
            "cvrp",
            [f"instances={DATA}/cvrplib", "nearest=5"],
            "there is no key nearest; did you mean problem.nearest?",
        ),
        ("cvrp", ["instances=kool/tsp20"], "cvrp.pt is for cvrp)"),
        ("jssp", [f"instances={DATA}/berlin52.tsp"], "jssp.pt is for jssp)"),
        ("tsp", ["instances=kool/tsp20", "references=no.csv"], "references=no.csv: No such file or directory"),
        ("tsp", ["instances=kool/tsp20", "method=[]"], "method=[]: there must be one method at least"),
        (
            "tsp",
            ["instances=kool/tsp20", f"out_dir={DATA}/berlin52.tsp"],
            "berlin52.tsp is not a folder; choose another",
        ),
    ],
)
def test_wrong_evaluations_are_refused(policies, tmp_path, problem, words, message):
    result = typed(evaluate, f"checkpoint={policies / problem}.pt", *words, cwd=tmp_path)
    assert result.returncode != 0 and message in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_heuristics_without_ortools_are_refused_before_anything_is_solved(policies, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.constraint_solver.pywrapcp", None)
    words = [f"checkpoint={policies}/tsp.pt", "instances=kool/tsp20", "method=[greedy,heuristic]", "workers=0"]
    result = typed(evaluate, *words, cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.count("\n") == 1
    assert "method=heuristic needs OR-Tools for problem tsp: pip install" in result.stderr
    assert list(tmp_path.iterdir()) == []
