"""What is kept of solvers' answers: nothing is solved twice, and damaged or wrong files do no harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from gumbeldore.runtime.files import cache_folder
from problems.solvers import Solver
from problems.solvers import backends as registry
from problems.solvers.answer import Options
from problems.solvers.cache import Cache, key_of
from problems.solvers.pool import row_of
from problems.solvers.solver import as_instance_set
from problems.tsp import TSP

pytest.importorskip("pyvrp")
pytest.importorskip("ortools")


@pytest.fixture
def solver():
    return Solver(time_limit=0.2)


def random_set(n, nodes, seed=0):
    problem = TSP(nodes)
    return as_instance_set(problem, problem.generate(n, torch.Generator().manual_seed(seed)))


@pytest.fixture
def counted(monkeypatch):
    """The number of solves of the TSP."""
    calls = []
    real = registry.backend_of("tsp")

    def solve(row, options):
        calls.append(row)
        return real.solve(row, options)

    monkeypatch.setitem(registry.BACKENDS, "tsp", real._replace(solve=solve))
    return calls


def test_no_instance_is_solved_twice(counted, solver):
    instance_set = random_set(3, 6)
    first = solver.solve("tsp", instance_set, indices=[0, 2])
    assert len(counted) == 2
    second = Solver(time_limit=0.2).solve("tsp", instance_set)
    assert len(counted) == 3 and torch.equal(second.actions[[0, 2]], first.actions)
    assert torch.equal(second.seconds[[0, 2]], first.seconds) and second.kinds[::2] == first.kinds


def test_other_options_and_instances_are_solved_anew(counted):
    for other in (Solver(0.05), Solver(0.06), Solver(0.05, seed=1), Solver(0.05, patience=10)):
        other.solve("tsp", random_set(1, 6))
    Solver(0.05).solve("tsp", random_set(1, 6, seed=1))
    assert len(counted) == 5


def test_keys_tell_everything_apart_that_decides_the_answer():
    backend, options = registry.backend_of("tsp"), Options(1.0, 0, None)
    row = row_of(random_set(1, 6).originals, 0)
    rows = [row, row._replace(metrics="EUC_2D"), row._replace(coords=row.coords + 1e-15)]
    rows += [row._replace(coords=row.coords.view(4, 3))]
    matrix, other = torch.ones(2, 60, 60)
    other[30, 31] = 2
    rows += [row._replace(metrics=matrix), row._replace(metrics=other)]
    shops = registry.backend_of("jssp")
    of_threads = [key_of("jssp", row, shops, options._replace(threads=count)) for count in (1, 2, 8)]
    assert len(set(of_threads)) == 3 and of_threads[0] == key_of("jssp", row, shops, options)
    assert key_of("tsp", row, backend, options._replace(threads=8)) == key_of(
        "tsp", row, backend, options
    )  # PyVRP: one
    keys = [key_of("tsp", row, backend, options) for row in rows]
    keys += [key_of("cvrp", row, backend, options), key_of("tsp", row, registry.backend_of("jssp"), options)]
    assert len(set(keys)) == 8 and key_of("tsp", row, backend, options) == keys[0]


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other tour", "no tour", "pickle"])
def test_damaged_files_are_written_anew(counted, solver, damage):
    instance_set = random_set(1, 9)
    before = solver.solve("tsp", instance_set)
    (path,) = cache_folder("solvers").glob("*/*.npz")
    content = path.read_bytes()
    with np.load(path) as file:
        arrays = dict(file)
    if damage in ("cut", "empty", "text"):
        path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "text": b"not an archive"}[damage])
    elif damage == "pickle":
        np.savez(path, **{**arrays, "kind": np.array([{}], dtype=object)})
    else:
        actions = np.sort(arrays["actions"]) if damage == "other tour" else np.ones(8, dtype=np.int64)
        np.savez(path, **{**arrays, "actions": actions})
    after = solver.solve("tsp", instance_set)
    assert len(counted) == 2 and torch.equal(after.costs, before.costs)
    assert solver.solve("tsp", instance_set).costs == before.costs and len(counted) == 2


def test_where_answers_are_kept(monkeypatch, tmp_path):
    assert cache_folder("solvers") == tmp_path / "cache" / "solvers"
    monkeypatch.delenv("GUMBELDORE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("solvers") == tmp_path / "xdg" / "gumbeldore" / "solvers"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder("solvers") == Path.home() / ".cache" / "gumbeldore" / "solvers"
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="set GUMBELDORE_CACHE to another folder"):
        Solver(1, folder=tmp_path / "file" / "below")


def test_a_user_without_a_home_folder_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("GUMBELDORE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as where neither HOME nor an entry of the user is
    with pytest.raises(ValueError, match="there is no home folder; set HOME, or GUMBELDORE_CACHE"):
        cache_folder("solvers")


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_solved(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as of a file system that is mounted to be read
    with pytest.raises(ValueError, match=r"cannot be kept in .* \(no permission to write\); set GUMBELDORE_CACHE"):
        Cache(tmp_path)
