"""The commands as a user types them: every configuration composes, every mistake is one clear line."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import fields

import pytest
import torch
from omegaconf import OmegaConf

import evaluate
import gumbeldore
import study
import train
from gumbeldore.cli import import_checkpoint
from gumbeldore.cli.methods import search_keys
from gumbeldore.cli.schema import EvaluationSettings, RunSettings, StudySettings
from gumbeldore.cli.setup import set_up
from gumbeldore.runtime.building import build
from gumbeldore.runtime.program import as_called
from gumbeldore.studies import STUDIES
from gumbeldore.training.settings import ALGORITHMS
from tests.helpers.commands import CONFIGS, ROOT, compose, configured, options, problem_of, refused, typed


def test_the_version_is_the_same_everywhere(tmp_path):
    for command in (train, evaluate, study, import_checkpoint):
        assert typed(command, "--version", cwd=tmp_path).stdout == f"gumbeldore {gumbeldore.__version__}\n"
    assert f"\nversion: {gumbeldore.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    setuptools = pytest.importorskip("setuptools.config.pyprojecttoml")
    project = setuptools.read_configuration(ROOT / "pyproject.toml")["project"]  # as it will be installed
    assert project["version"] == gumbeldore.__version__


NOT_FOR_TRAINING = ("method=heuristic", "method=solver", "train=supervised", "train=active_search")  # without more


@pytest.mark.parametrize(
    "choice",
    [
        x
        for group in ("problem", "recipe", "model", "method", "experiment", "debug", "train")
        for x in options(group)
        if x not in NOT_FOR_TRAINING
    ],
)
def test_every_configuration_builds(choice):
    words = [choice] if choice.startswith("experiment") else [f"problem={problem_of(choice)}", choice]
    setup = set_up(configured("train", *dict.fromkeys(words)))
    assert isinstance(setup.policy, torch.nn.Module) and setup.problem.name == problem_of(choice)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("device=abacus", "device=abacus cannot be used"),
        *((f"device={kind}", f"device={kind} cannot be used: cpu and cuda can") for kind in ("meta", "mps", "mps:0")),
        ("device=cuda:99", "device=cuda:99 cannot be used"),
    ],
)
def test_devices_that_are_not_there_are_named(word, message):
    """Why they cannot be used depends on the machine, so that they are not among the wrong commands."""
    with pytest.raises(ValueError, match=re.escape(message)):
        set_up(configured("train", word))


class Annotated:
    """What a user's class may say of its arguments."""

    def __init__(
        self,
        a: int | str = 1,
        b: list[int] | int = 1,
        c: list[float | None] | None = None,
        d: OnlyForTypeCheckers | None = None,  # noqa: F821
    ):
        self.values = a, b, c, d


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"a": "x", "b": 3, "c": [1, None, 0.5], "d": 7}, None),
        ({"a": 1, "b": [3, 4], "c": None, "d": {}}, None),
        ({"a": 1.5}, "mine: a must be an integer or text, got 1.5"),
        ({"a": True}, "mine: a must be an integer or text, got True"),
        ({"b": "3"}, "mine: b must be a list of integers or an integer, got '3'"),
        ({"c": [1, "x"]}, "mine: c must be a list of numbers or nulls or null, got [1, 'x']"),
    ],
)
def test_annotations_of_any_kind_are_read(values, message):
    node = {"_target_": f"{__name__}.Annotated", **values}
    if message is None:
        assert build(node, "mine").values == tuple(values.values())
    else:
        with pytest.raises(ValueError, match=re.escape(message)):
            build(node, "mine")


def used_attributes(*paths):
    return {
        node.attr for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
    }


def test_no_key_without_effect():
    """Every key is a field of a checked settings class, an argument of a method or of a constructor - and is read."""
    cfg = compose("train")
    own = {key for key in cfg if not OmegaConf.is_config(cfg[key])}
    assert own == {field.name for field in fields(RunSettings)}
    algorithms = {field.name for kind in ALGORITHMS.values() for field in fields(kind)}
    assert set(cfg.train) == {"algorithm", *algorithms}
    core = [*(ROOT / "gumbeldore").rglob("*.py"), ROOT / "train.py", ROOT / "evaluate.py"]
    read = used_attributes(*core)
    for kind in (RunSettings, *ALGORITHMS.values(), EvaluationSettings):
        assert {field.name for field in fields(kind)} <= read
    evaluation = compose("evaluate", "checkpoint=a", "instances=b")
    own = {key for key in evaluation if not OmegaConf.is_config(evaluation[key])}
    assert own == {field.name for field in fields(EvaluationSettings)}
    cfg_of_study = compose("study", "checkpoint=x", "instances=y")
    own = {key for key in cfg_of_study if not OmegaConf.is_config(cfg_of_study[key]) or key == "race"}
    assert own == {field.name for each in (StudySettings, *STUDIES.values()) for field in fields(each)}
    names = {path.stem for path in (CONFIGS / "method").glob("*.yaml")}
    every = compose("evaluate", "checkpoint=a", "instances=b", f"method=[{','.join(names)}]").methods
    assert {key for node in every.values() for key in search_keys(node, cfg.search)} == set(cfg.search)


def test_instances_that_no_memory_holds_are_refused(tmp_path):
    """The line ends in the words of torch's allocator, so this command is not in the list."""
    line = refused(train, "problem=jssp", "problem.sizes=[[1000000000,1000000000]]", cwd=tmp_path)
    assert line.startswith("error: memory does not suffice for instances of this size; choose a smaller problem (")


def test_help_need_not_be_read_to_the_end():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "train.py", "--help"], cwd=ROOT, text=True, **pipes)
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() == 0


@pytest.mark.parametrize("program, called", [("train.py", "python train.py"), ("gumbeldore-train", "gumbeldore-train")])
def test_commands_are_shown_as_they_are_called_here(monkeypatch, program, called):
    monkeypatch.setattr(sys, "argv", [f"/somewhere/{program}", "problem=tsp"])
    assert as_called("python train.py -m seed=0,1") == f"{called} -m seed=0,1"
    assert as_called("tensorboard --logdir runs") == "tensorboard --logdir runs"


@pytest.mark.parametrize("program", [train, evaluate])
def test_help_reads_well(program, tmp_path):
    result = typed(program, "--help", cwd=tmp_path)
    assert result.returncode == 0 and f"python {program.__name__}.py " in result.stdout
    options = {path.stem for path in (ROOT / "configs/method").glob("*.yaml")}
    (listed,) = (line for line in result.stdout.splitlines() if line.lower().startswith("method") and "beam, " in line)
    assert options <= set(re.findall(r"\w+", listed))
    assert "hydra:" not in result.stdout and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "settings"),
    [("tasar", ["search.replan_steps=2", "search.beam_width=2"]), ("reconstruct", ["search.iterations=2"])],
)
def test_other_methods_sample_experts(method, settings, tmp_path):
    small = ["problem.num_nodes=6", "problem.grow=null", "images_every=9", "workers=0", "run_dir=run"]
    result = typed(train, f"method={method}", *settings, "debug=fast", *small, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    metrics = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[-1])
    if method == "reconstruct":  # it begins with the greedy solution
        assert metrics["sampling/improvement_over_greedy"] >= 0
    else:  # 2 x 2 samples from each of three roots, of up to eight instances
        assert 8 < metrics["sampling/solutions"] / 4 <= 8 * 3
