"""A file, a picture or a terminal that takes nothing costs none of the results."""

from __future__ import annotations

import pytest

import evaluate
import study
import train
from tests.helpers.commands import ROOT, run, typed

SQUARE = "NAME: {}\nTYPE: TSP\nDIMENSION: 4\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 0 3\n3 4 3\n4 4 0\n"


def test_neither_a_terminal_without_the_letters_nor_a_backend_that_is_not_there_costs_the_results(tmp_path):
    (tmp_path / "Größe.tsp").write_text(SQUARE.format("Größe"))
    words = ["instances=Größe.tsp", "method=greedy", "workers=0", "out_dir=öut"]  # the policy is chosen, with a reason
    done = run(str(ROOT / "evaluate.py"), *words, cwd=tmp_path, PYTHONIOENCODING="ascii", MPLBACKEND="not_installed")
    assert (done.returncode, done.stderr) == (0, "") and "for Gr??e (nodes 4)" in done.stdout, done.stderr
    assert " 14 " in done.stdout and "written: ?ut/report.html" in done.stdout
    assert (tmp_path / "öut/report.html").is_file()


def fails(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("writer", "file"),
    [
        ("gumbeldore.evaluation.result_files.write_json", "out/results.json"),
        ("gumbeldore.evaluation.result_files.write_csv", "out/results.csv"),
        ("gumbeldore.evaluation.result_files.write_solutions", "out/solutions"),
        ("gumbeldore.reporting.charts.markup", "out/report.html"),
    ],
)
def test_a_file_that_cannot_be_written_costs_neither_the_table_nor_the_others(writer, file, tmp_path, monkeypatch):
    (tmp_path / "square.tsp").write_text(SQUARE.format("square"))
    monkeypatch.setattr(writer, fails)
    words = ["checkpoint=tsp20", "instances=square.tsp", "method=greedy", "workers=0", "out_dir=out"]
    done = typed(evaluate, *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and " 14 " in done.stdout, done.stderr
    assert f"warning: {file} is not written: [Errno 28] No space left on device\n" in done.stdout
    others = {"out/results.json", "out/results.csv", "out/solutions", "out/report.html"} - {file}
    assert not (tmp_path / file).exists() and all((tmp_path / other).exists() for other in others)
    assert file not in done.stdout.partition("written: out/")[2]


def test_a_picture_that_cannot_be_drawn_costs_no_table_of_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr("study.draw", fails)
    words = ["checkpoint=tsp20", "instances=kool/tsp20", "num_instances=2", "method=greedy", "workers=0", "out_dir=out"]
    done = typed(study, *words, cwd=tmp_path)
    assert (
        done.returncode == 0 and "samples" in done.stdout and "written: out/study.csv, out/study.json\n" in done.stdout
    )
    assert "warning: out/study.png is not written: [Errno 28] No space" in done.stdout


def test_a_picture_that_cannot_be_drawn_costs_no_training(tmp_path, monkeypatch):
    monkeypatch.setattr("gumbeldore.reporting.validation_figure.solutions_of", fails)
    monkeypatch.setattr("gumbeldore.reporting.tensorboard.Dashboard.epoch", fails)
    words = ["debug=fast", "problem.num_nodes=6", "train.epochs=1", "workers=0", "run_dir=run"]
    done = typed(train, *words, cwd=tmp_path)
    assert done.returncode == 0 and "finished\n" in done.stdout, done.stderr
    assert done.stdout.count("is not written: [Errno 28]") == 2
