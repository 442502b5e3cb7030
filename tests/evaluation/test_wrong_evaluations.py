"""Evaluations that a machine refuses, in one line, before anything is done; tests/cli/wrong_commands.txt has others."""

from __future__ import annotations

import sys

import evaluate
from tests.helpers.commands import refused


def test_heuristics_without_ortools_are_refused_before_anything_is_solved(policies, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.constraint_solver.pywrapcp", None)
    words = [f"checkpoint={policies}/tsp.pt", "instances=kool/tsp20", "method=[greedy,heuristic]", "workers=0"]
    assert "method=heuristic needs OR-Tools for problem tsp: pip install" in refused(evaluate, *words, cwd=tmp_path)
