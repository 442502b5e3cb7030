"""Compiled functions: what is kept of them, where, and who compiles."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gumbeldore.runtime.jit import below, compiled
from problems.jssp.local_search.tabu_search import STATE
from tests.helpers.commands import ROOT

RULES = "from problems.jssp import JSSP; JSSP([[2, 2]], [[2, 2]]).prepare_rules()"
LINE = "compiling the dispatching rules"


def process(cache):
    environment = {**os.environ, "GUMBELDORE_CACHE": str(cache)}
    return subprocess.Popen([sys.executable, "-c", RULES], cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def said(*processes):
    """The lines of each process, all of which have ended well."""
    lines = [each.communicate()[1] for each in processes]
    assert all(each.returncode == 0 for each in processes), lines
    return lines


def test_random_numbers_are_uniform_and_those_of_the_state():
    states = [np.zeros(1, STATE) for _ in range(2)]
    for state in states:
        state["random"] = 7
    drawn, again = ([int(below(state, 5)) for _ in range(20_000)] for state in states)
    assert drawn == again and drawn[:8] == [3, 1, 4, 3, 4, 1, 1, 3]
    counts = np.bincount(drawn, minlength=5)
    assert counts.sum() == 20_000 and (abs(counts - 4000) < 250).all()
    pairs = np.bincount(np.array(drawn[:-1]) * 5 + np.array(drawn[1:]), minlength=25)
    assert (abs(pairs - 800) < 150).all()


def test_a_compiled_function_is_the_function():
    @compiled
    def triple(x):
        return 3 * x

    assert triple(4) == 12 and triple.py_func(4) == 12


@pytest.mark.slow
def test_one_of_several_processes_compiles_and_later_ones_find_it(tmp_path):
    first = said(process(tmp_path), process(tmp_path), process(tmp_path))
    assert sorted(LINE in line for line in first) == [False, False, True]
    assert list(tmp_path.glob("numba/*/**/*.nbi"))
    assert said(process(tmp_path)) == [""]


@pytest.mark.slow
def test_without_a_folder_for_it_all_is_compiled_each_time(tmp_path):
    (tmp_path / "file").touch()
    for _ in range(2):
        assert LINE in said(process(tmp_path / "file"))[0]
