"""Evaluations and studies that are stopped or killed, and go on: they end like those that were left alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import evaluate
import study
from gumbeldore.evaluation.kept import MANIFEST, Kept
from gumbeldore.evaluation.parts import Parts, SolvedSet
from gumbeldore.runtime.folder_lock import lock
from tests.helpers.commands import ROOT, done, refused, typed
from tests.helpers.evaluations import rows_of
from tests.helpers.interruptions import interrupted_after

POLICY = f"checkpoint={ROOT}/pretrained/tsp20"
WORDS = [POLICY, "instances=kool/tsp20", "num_instances=6", "method=[greedy,wor]", "search.beam_width=2"]
WORDS += ["search_batch_rows=4", "precision=float32", "workers=0", "out_dir=out"]
PARTS = 2 + 3  # of greedy and of wor: so many instances, times the beam width, as search_batch_rows lets be together
STUDY = [POLICY, "instances=kool/tsp20", "num_instances=4", "method=wor", "search.num_rounds=[1,2]", "repetitions=2"]
STUDY += ["search.beam_width=2", "search.top_p_start=1", "search_batch_rows=4", "workers=0", "out_dir=out"]


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    done(evaluate, *WORDS, cwd=folder)
    return folder / "out"


@pytest.fixture
def whole(whole_folder):
    return rows_of(whole_folder)


@pytest.fixture
def finished(whole_folder, tmp_path):
    """The folder of a finished evaluation."""
    return shutil.copytree(whole_folder, tmp_path / "out")


def test_a_part_of_an_earlier_version_with_fewer_counts_is_not_searched_again(tmp_path):
    part = SolvedSet.without_policy(torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, dtype=torch.float64), 1.0)
    Parts(tmp_path).add(slice(0, 2), {"search": part})
    with np.load(tmp_path / "0-2.npz") as arrays:
        np.savez(tmp_path / "0-2.npz", **{name: arrays[name] for name in arrays if name != "0.greedy_alone"})
    assert slice(0, 2) in Parts(tmp_path) and Parts(tmp_path).joined()["search"].greedy_alone == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("parts", [1, *(pytest.param(x, marks=pytest.mark.slow) for x in range(2, PARTS))])
def test_an_interrupted_evaluation_reports_what_is_finished_and_goes_on(parts, number, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_after(patch, parts, number)
        stopped = typed(evaluate, *WORDS, cwd=tmp_path)
    out, finished = tmp_path / "out", {1: 3, 2: 6, 3: 8, 4: 10}[parts]
    kept = f"interrupted: {finished} of 12 searches are finished and kept"
    assert stopped.returncode == 130
    assert stopped.stderr == f"{kept}; the same command with out_dir=out resume=true goes on\n"
    assert (out / "results.json").exists() == (finished >= 6)
    if finished >= 6:
        methods = json.loads((out / "results.json").read_text())["methods"]
        assert {name: each["num_instances"] for name, each in methods.items()} == {"greedy": 6}
        assert rows_of(out) == whole[:7] and "greedy" in (out / "report.html").read_text()
    assert (out / "unfinished").exists() == (finished != 6)
    if finished != 6:
        begun, name = 6 * (finished > 6), "wor" if finished > 6 else "greedy"
        assert rows_of(out / "unfinished") == [whole[0], *whole[1 + begun : 1 + finished]]
        assert name in (out / "unfinished/report.html").read_text()
        assert f"{name}: {finished - begun} of 6 instances are finished" in stopped.stdout
    counted, add = [], Parts.add
    monkeypatch.setattr(Parts, "add", lambda self, *arguments: (counted.append(0), add(self, *arguments)))
    done(evaluate, *WORDS, "resume=true", cwd=tmp_path)
    assert rows_of(out) == whole and len(counted) == PARTS - parts
    assert not (out / "unfinished").exists() and not list(out.rglob("*.gumbeldore-tmp"))


def test_a_finished_evaluation_that_goes_on_searches_nothing(whole, finished, tmp_path, monkeypatch):
    monkeypatch.setattr(Parts, "add", None)
    done(evaluate, *WORDS, "resume=true", cwd=tmp_path)
    assert rows_of(finished) == whole


def test_a_damaged_part_is_searched_again(whole, finished, tmp_path):
    first, second, third, *_ = sorted(finished.rglob("*.npz"))
    first.write_bytes(first.read_bytes()[:-100])
    second.write_bytes(b"")
    third.unlink()
    done(evaluate, *WORDS, "resume=true", cwd=tmp_path)
    assert rows_of(finished) == whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "out_dir=out holds results already; choose another, or go on with them by resume=true"),
        (["resume=true", "seed=1"], "out_dir=out cannot be gone on with: seed was 0 and is 1 now; choose another"),
        (["resume=true", "search.beam_width=4"], "search.beam_width was 2 and is 4 now"),
        (["resume=true", "method=wor"], "methods.greedy._target_ was gumbeldore.methods.Greedy and is nothing now"),
        (["resume=true", "num_instances=5"], "instances (sha256) was "),
        (["resume=true", f"checkpoint={ROOT}/pretrained/tsp50"], "checkpoint (sha256) was "),
        (["resume=yes"], "resume must be true or false, got 'yes'"),
        (["resume=true", "out_dir=null"], "resume=true needs out_dir=, the folder of the evaluation to go on with"),
    ],
)
def test_what_has_changed_is_refused_in_one_line(words, message, whole, finished, tmp_path):
    keys = [word.partition("=")[0] for word in words]
    others = [word for word in WORDS if word.partition("=")[0] not in keys]
    assert message in refused(evaluate, *others, *words, cwd=tmp_path)
    assert rows_of(finished) == whole


def test_what_changes_no_solution_may_change(whole, finished, tmp_path):
    shutil.copytree(ROOT / "pretrained/tsp20", tmp_path / "moved")
    done(evaluate, *WORDS[1:], "resume=true", "checkpoint=moved", cwd=tmp_path)
    assert rows_of(finished) == whole


def test_one_process_per_folder(tmp_path):
    (tmp_path / "out/progress").mkdir(parents=True)
    with lock(tmp_path / "out/progress", "out_dir"):
        assert "out/progress is in use by another run; wait for its end" in refused(evaluate, *WORDS, cwd=tmp_path)


@pytest.mark.parametrize("mine", ["notes.tmp", "results.csv", "unfinished/a.txt", "progress/thesis.txt"])
@pytest.mark.parametrize("more", [(), ("resume=true",)])
def test_a_folder_with_files_of_the_user_is_refused(mine, more, tmp_path):
    file = tmp_path / "out" / mine
    file.parent.mkdir(parents=True)
    file.write_text("precious")
    line = refused(evaluate, *WORDS, *more, cwd=tmp_path)
    assert "out_dir=out is not empty, and holds no results to go on with" in line and file.read_text() == "precious"


@pytest.mark.parametrize("parts", [3, *(pytest.param(x, marks=pytest.mark.slow) for x in (1, 7))])
def test_an_interrupted_study_goes_on(parts, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    done(study, *STUDY, cwd=tmp_path / "whole")
    with monkeypatch.context() as patch:
        interrupted_after(patch, parts)
        stopped = typed(study, *STUDY, cwd=tmp_path)
    assert stopped.returncode == 130
    assert f"interrupted: {2 * parts} of 16 searches are finished and kept; the same" in stopped.stderr
    assert (tmp_path / "out/study.json").exists() == (parts >= 4)
    done(study, *STUDY, "resume=true", cwd=tmp_path)
    points = [json.loads((x / "out/study.json").read_text())["points"] for x in (tmp_path, tmp_path / "whole")]
    assert [{**x, "seconds": 0} for x in points[0]] == [{**x, "seconds": 0} for x in points[1]]


@pytest.mark.parametrize("method", ["heuristic", "solver"])
def test_interrupted_baselines_go_on(method, tmp_path, monkeypatch):
    if method == "solver":
        pytest.importorskip("pyvrp")  # which needs Python 3.11
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("problems.heuristics.heuristic.Heuristic.per_part", 2)
    monkeypatch.setattr("problems.solvers.baseline.CALLS_PER_WORKER", 2)
    words = [POLICY, "instances=kool/tsp20", "num_instances=5", f"method={method}", "workers=0", "out_dir=out"]
    words += ["solver.workers=0", "solver.time_limit=0.1"][: 2 if method == "solver" else 0]
    with monkeypatch.context() as patch:
        interrupted_after(patch, 2)
        stopped = typed(evaluate, *words, cwd=tmp_path)
    assert stopped.returncode == 130 and "interrupted: 4 of 5 searches are finished" in stopped.stderr
    begun = rows_of(tmp_path / "out/unfinished")
    done(evaluate, *words, "resume=true", cwd=tmp_path)
    rows = rows_of(tmp_path / "out")
    assert len(begun) == 5 and len(rows) == 6
    if method == "solver":  # of the heuristics, another may be the best of all instances
        assert rows[:5] == begun


def test_of_an_interrupted_method_nothing_is_left_beside_its_result(tmp_path, monkeypatch):
    """Of more instances, another heuristic may be the best: here it is always another."""
    monkeypatch.setattr("gumbeldore.evaluation.solved_sets.best_of", lambda found, some: list(found)[len(some) - 1])
    maps = ("ulysses16", "eil51", "berlin52")
    (tmp_path / "maps").mkdir()
    for name in maps:
        shutil.copy(ROOT / f"tests/data/{name}.tsp", tmp_path / "maps")
    words = [POLICY, "instances=maps", "method=heuristic", "workers=0", "out_dir=out", "resume=true"]
    shown = []
    for count in (1, 2):
        with monkeypatch.context() as patch:
            interrupted_after(patch, 1)
            assert typed(evaluate, *words, cwd=tmp_path).returncode == 130
        assert not (tmp_path / "out/results.csv").exists() and not (tmp_path / "out/solutions").exists()
        files = list((tmp_path / "out/unfinished/solutions").rglob("*.tour"))
        assert {file.stem for file in files} == set(maps[:count])
        shown += {file.parent.name for file in files}
    done(evaluate, *words, cwd=tmp_path)
    files = list((tmp_path / "out").rglob("*.tour"))
    shown += {file.parent.name for file in files}
    assert len(files) == 3 and len(shown) == len(set(shown)) == 3 and not (tmp_path / "out/unfinished").exists()


# ---- processes


def test_the_second_ctrl_c_ends_the_process_at_once():
    code = """
import os, signal, time
from gumbeldore.runtime.stopping import interruptible
with interruptible():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)
"""
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGINT and ended.stdout == "interrupted\n" and ended.stderr == ""


@pytest.mark.parametrize("text", ["[]", "3", "null", "[" * 100_000, "{"])
def test_a_manifest_of_something_else_is_damaged(text, tmp_path):
    with Kept(tmp_path, {"seed": 0}, resume=False):
        pass
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(ValueError, match=rf"^{tmp_path / MANIFEST} is damaged, so .* cannot be gone on with"):
        Kept(tmp_path, {"seed": 0}, resume=True)


@pytest.mark.parametrize("place", ["manifest.json", "0123456789abcdef/0-3.npz", "0123456789abcdef.json", "lock"])
def test_a_pipe_in_the_place_of_a_kept_file_is_named(place, tmp_path):
    with Kept(tmp_path, {"seed": 0}, resume=False):
        pass
    path = tmp_path / "progress" / place
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(ValueError, match=f"^{path}: this is a pipe"):
        Kept(tmp_path, {"seed": 0}, resume=True)
