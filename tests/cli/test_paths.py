"""Paths on the command line: of any name, they need the shell's quoting alone; `~` is the home folder everywhere."""

from __future__ import annotations

import shlex
import shutil

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

import evaluate
import study
import train
from gumbeldore.cli.paths import READ, WRITTEN, quoted_paths
from gumbeldore.cli.words import check_overrides
from problems.solvers import __main__ as experts
from tests.helpers.commands import done
from tests.helpers.evaluations import DATA, untrained

NAMES = ["a b", "x[1]", "x]", "(x)", "{x}", "a: {b", "a,b", "a=b", "#x", "it's", 'a"b', "x&y", "x!", "~x", "Läufe"]
NAMES += ["走る", "a\\'b", "1e3", "'a'", "a${seed}", "glob(x)", "???x", "a,b=[c]{d}#'&!~ é"]
TINY = ["debug=fast", "train.epochs=1", "problem.num_nodes=6", "problem.grow=null", "model.layers=1", "model.width=16"]
TINY += ["model.heads=2", "precision=float32", "images_every=9", "workers=0"]


def meant(word, sweep=False):
    (quoted,) = quoted_paths([word], sweep)
    (override,) = OverridesParser.create().parse_overrides([quoted])
    return "several runs" if override.is_sweep_override() else override.value()


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_path_that_exists_is_that_path(name, sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    for key in READ + WRITTEN:
        assert meant(f"{key}={name}", sweep).replace("\\${", "${") == name


@pytest.mark.parametrize(
    ("word", "sweep", "value"),
    [
        ("out_dir=[a,b]", False, "[a,b]"),
        ("out_dir=12", False, "12"),
        ("out_dir='new'", False, "new"),  # quoted for Hydra, as one had to
        ("instances=nowhere[1]", False, "nowhere[1]"),  # so that the error is of the file
        ("instances=[a,b]", False, ["a", "b"]),
        ("instances=a,b", False, "a,b"),
        ("instances=a,b", True, "several runs"),
        ("run_dir=a,b", True, "several runs"),
        ("run_dir=seed${seed}", True, "seed${seed}"),
        ("run_dir=Läufe${seed}", True, "Läufe${seed}"),
        ("out_dir=null", False, None),
        ("seed=12", False, 12),  # no path
    ],
)
def test_a_path_that_does_not_exist_yet(word, sweep, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert meant(word, sweep) == value


def test_several_values_without_multirun_say_how_they_are_given():
    rule = "method=greedy,wor: several values are a list, 'method=[greedy,wor]', or several runs, -m"
    with pytest.raises(ValueError) as refused:
        check_overrides(["method=greedy,wor"], "evaluate")
    assert str(refused.value) == rule


@pytest.mark.slow
def test_every_command_takes_such_paths_and_its_hints_can_be_pasted(tmp_path, monkeypatch):
    pytest.importorskip("pyvrp")  # which needs Python 3.11
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "a,b=[c] {d}#(e)'&!~ é"
    folder.mkdir()
    shutil.copy(DATA / "berlin52.tsp", folder)
    untrained(folder)
    place = folder.name
    instances = [f"instances={place}/berlin52.tsp", "workers=0"]
    done(evaluate, f"checkpoint=~/{place}/tsp.pt", f"out_dir=~/{place}/results,1", *instances, cwd=tmp_path)
    assert (folder / "results,1/report.html").is_file()
    words = ["method=wor", "search.num_rounds=[1]", "repetitions=2", "num_instances=null", *instances]
    done(study, f"checkpoint={place}/tsp.pt", f"out_dir={place}/study", *words, cwd=tmp_path)
    solved = [f"out={place}/experts.npz", "num_instances=2", "workers=0", "problem.num_nodes=6", "time_limit=0.1"]
    done(experts, *solved, cwd=tmp_path)
    given = ["train=supervised", f"train.experts={place}/experts.npz", f"init=~/{place}/run"]
    said = done(train, *TINY, f"run_dir={place}/run", "time_limit=1000", cwd=tmp_path).stdout
    (hint,) = (line.partition(":")[2] for line in said.splitlines() if line.startswith("evaluate:"))
    pasted = shlex.split(hint.replace("<set, file or folder>", "kool/tsp20"))
    assert pasted[:2] == ["python", "evaluate.py"]
    done(evaluate, *pasted[2:], "num_instances=2", "workers=0", "out_dir=pasted", cwd=tmp_path)
    done(train, *(word for word in TINY if "grow" not in word), *given, f"run_dir={place}/other", cwd=tmp_path)
    done(train, f"resume=~/{place}/run", "train.epochs=2", cwd=tmp_path)
    assert not (tmp_path / "~").exists()
