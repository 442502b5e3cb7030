"""A file, a picture or a terminal that takes nothing costs none of the results."""

from __future__ import annotations

import pytest

import evaluate
import study
import train
from tests.helpers.commands import ROOT, done, run
from tests.helpers.instance_files import write_tsp

SQUARE = [(0, 0), (0, 3), (4, 3), (4, 0)]


def test_neither_a_terminal_without_the_letters_nor_a_backend_that_is_not_there_costs_the_results(tmp_path):
    write_tsp(tmp_path / "Größe.tsp", SQUARE)
    words = ["instances=Größe.tsp", "method=greedy", "workers=0", "out_dir=öut"]  # the policy is chosen, with a reason
    result = run(str(ROOT / "evaluate.py"), *words, cwd=tmp_path, PYTHONIOENCODING="ascii", MPLBACKEND="not_installed")
    assert (result.returncode, result.stderr) == (0, "") and "for Gr??e (nodes 4)" in result.stdout, result.stderr
    assert " 14 " in result.stdout and "written: ?ut/report.html" in result.stdout
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
    write_tsp(tmp_path / "square.tsp", SQUARE)
    monkeypatch.setattr(writer, fails)
    words = ["checkpoint=tsp20", "instances=square.tsp", "method=greedy", "workers=0", "out_dir=out"]
    result = done(evaluate, *words, cwd=tmp_path)
    assert result.stderr == "" and " 14 " in result.stdout
    assert f"warning: {file} is not written: [Errno 28] No space left on device\n" in result.stdout
    others = {"out/results.json", "out/results.csv", "out/solutions", "out/report.html"} - {file}
    assert not (tmp_path / file).exists() and all((tmp_path / other).exists() for other in others)
    assert file not in result.stdout.partition("written: out/")[2]


def test_a_picture_that_cannot_be_drawn_costs_no_table_of_a_study(tmp_path, monkeypatch):
    monkeypatch.setattr("study.draw", fails)
    words = ["checkpoint=tsp20", "instances=kool/tsp20", "num_instances=2", "method=greedy", "workers=0", "out_dir=out"]
    said = done(study, *words, cwd=tmp_path).stdout
    assert "samples" in said and "written: out/study.csv, out/study.json\n" in said
    assert "warning: out/study.png is not written: [Errno 28] No space" in said


def test_a_picture_that_cannot_be_drawn_costs_no_training(tmp_path, monkeypatch):
    monkeypatch.setattr("gumbeldore.reporting.validation_figure.solutions_of", fails)
    monkeypatch.setattr("gumbeldore.reporting.tensorboard.Dashboard.epoch", fails)
    words = ["debug=fast", "problem.num_nodes=6", "train.epochs=1", "workers=0", "run_dir=run"]
    said = done(train, *words, cwd=tmp_path).stdout
    assert "finished\n" in said and said.count("is not written: [Errno 28]") == 2
