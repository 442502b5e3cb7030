"""The commands as a user types them: every configuration composes, every mistake is one clear line."""

from __future__ import annotations

import ast
import json
import re
import shlex
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
    ("overrides", "message"),
    [
        ("problem=cvrp problem.capacity=30", "problem: capacity must be a list of integers, got 30"),
        ("problem=jssp problem.sizes=6", "problem: sizes must be a list of lists of integers or numbers, got 6"),
        ("train.batch_size=0", "train.batch_size must be an integer of at least 1, got 0"),
        ("train.learning_rate=0", "train.learning_rate must be a number above 0"),
        ("train.decisions_per_epoch=0", "train.decisions_per_epoch must be an integer of at least 1 or null"),
        ("search.beam_width=0", "beam_width must be an integer of at least 1"),
        ("search.step_size=-1", "step_size must be a number of at least 0"),
        ("search.top_p_start=1.5", "top_p_start must be a number above 0 and at most 1, got 1.5"),
        ("search.baseline=median", "baseline must be one of"),
        ("problem.num_nodes=many", "problem: num_nodes must be an integer, got 'many'"),
        ("model.canonical_coordinates=1", "model: canonical_coordinates must be true or false, got 1"),
        ("model.successor_loss=true", "model: successor_loss must be a number, got True"),
        ("problem.num_nodes=2", "problem: num_nodes must be at least 3"),
        ("problem._target_=os.system", "problem._target_=os.system is not a class"),
        ("problem._target_=models.bq_tsp.BQ", "must inherit gumbeldore.Problem"),
        ("model._target_=torch.nn.Linear", "must inherit gumbeldore.Policy"),
        ("model.heads=5", "model: width must be a multiple of heads"),
        ("seed=-1", "seed must be an integer of at least 0"),
        ("seed=9223372036854775808", "seed must be at most 9223372036854775807, got 9223372036854775808"),
        ("search_batch_rows=0", "search_batch_rows must be an integer of at least 1 or 'auto', got 0"),
        ("worker_threads=0", "worker_threads must be an integer of at least 1"),
        ("images_every=0", "images_every must be an integer of at least 1"),
        ("workers=-2", "workers must be an integer of at least 0 or 'auto'"),
        ("workers=many", "workers must be an integer of at least 0 or 'auto', got 'many'"),
        ("train_threads=1.5", "train_threads must be an integer of at least 1 or 'auto', got 1.5"),
        ("compile=1", "compile must be true or false, got 1"),
        ("device=''", "device must not be empty"),
        ("device=3", "device must be text, got 3; quote it if it is a number"),
        ("method=reconstruct search.start=foo", "method=reconstruct: start must be one of greedy, "),
        ("device=abacus", "device=abacus cannot be used"),
        *((f"device={kind}", f"device={kind} cannot be used: cpu and cuda can") for kind in ("meta", "mps", "mps:0")),
        ("device=cuda:99", "device=cuda:99 cannot be used"),
        ("precision=int4", "precision must be one of auto, bf16, float32"),
        ("time_limit=-5", "time_limit must be a number above 0"),
        ("method=[greedy,wor]", "one search method"),
        ("method=heuristic", "method=heuristic is no search with the policy, but a baseline"),
        (
            "method=solver",
            "method=solver does not belong to this command: Interpolation key 'solver.time_limit' not found",
        ),
        ("model=job_shop", "model models.job_shop.JobShop is not for problem tsp"),
        ("train=active_search", "train.instances must be given"),
        ("train.instances=x", "train.instances has no effect on train=self_improvement, only on train=active_search"),
        ("train.experts=x", "train.experts is for train=supervised, or for a pool"),
        ("train.algorithm=supervised", "train.algorithm is what train= sets"),
        (
            "train.cooldown_epochs=2 train.learning_rate_end_factor=1",
            "train.cooldown_epochs has no effect with train.learning_rate_end_factor=1",
        ),
        (
            "train.pool=100",
            "train.pool must be at least train.instances_per_epoch=128, which an epoch searches, got 100",
        ),
        ("train.pool=500 recipe=self_labeling", "train.pool needs train.keep_experts=true"),
    ],
)
def test_wrong_values_name_the_key_and_what_is_allowed(overrides, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        set_up(configured("train", *overrides.split()))


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


SUPERVISED, ACTIVE = "train=supervised train.experts=x.npz", "train=active_search train.instances=kool/tsp20"


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        (
            train,
            "problem.num_node=3",
            "there is no key problem.num_node; problem has distribution, grow, nearest, num_nodes",
        ),
        (train, "train.batchsize=30", "train has batch_size, batches_per_epoch, cooldown_epochs"),
        (train, "sed=1", "there is no key sed; did you mean seed"),
        (train, "search.sigma=1", "search has baseline, beam_width"),
        (train, "ray.address.port=1", "ray.address is null, give the whole of it: 'ray.address={port: ...}'"),
        (train, "+extra=1", "keys can be changed, not added or removed; leave out the +"),
        (train, "'~seed'", "keys can be changed, not added"),
        (train, "train.muon_learning_rate=null train.muon_weight_decay=1", "train.muon_weight_decay has no"),
        (train, "search.sampled_root=off", "sampled_root must be true or false, got 'off'"),
        (train, "resume=nowhere", "resume=nowhere: there is no"),
        (train, "init=nowhere", "init=nowhere: there is no checkpoint nowhere"),
        # as of a variable of the shell that is not set
        *((train, f"debug=fast {key}=", f"{key} must not be empty") for key in ("init", "resume", "run_dir")),
        (train, "problem=chess", "problem=chess: there is no such option; there are cvrp, fjsp, gomoku, jssp, tsp"),
        (train, "train=supervised", "train.experts must be given"),
        *(
            (train, f"{SUPERVISED} {key}=3", f"{key} has no effect on train=supervised")
            for key in ("train.instances_per_epoch", "train.decisions_per_epoch", "train.nucleus_after", "train.pool")
        ),
        (train, "train=active_search train.instances=kool/cvrp20", "kool/cvrp20"),
        *(
            (train, f"{ACTIVE} train.{key}", f"train.{key.split('=')[0]} has no effect on train=active_search")
            for key in ("experts=x.npz", "validation_instances=5", "instances_per_epoch=5", "pool=500")
        ),
        (train, f"{SUPERVISED} problem.grow=[4,0.5]", "problem.grow has no effect where instances are given"),
        (train, "train.pool=500 problem.grow=[8,0.5]", "problem.grow has no effect where instances are given, or stay"),
        (train, "experiment=demo search.top_p_end=0.9", "search.top_p_end has no effect with train.nucleus_after=18"),
        (train, "recipe=self_labeling train.nucleus_after=9", "train.nucleus_after has no effect on sampling"),
        (train, "-m method=wor,sampling train.epoch=1", "there is no key train.epoch; train has batch_size"),
        (train, "problem=cvrp experiment=demo", "error: experiment=demo is for problem=tsp, not for problem=cvrp\n"),
        (
            train,
            "problem=tsp experiment=paper_tsp100",
            "error: experiment=paper_tsp100 has a problem of its own, leave out problem=tsp\n",
        ),
        (
            train,
            "-m problem=tsp,cvrp experiment=demo",
            "error: experiment=demo is for problem=tsp, not for problem=cvrp\n",
        ),
        (train, "-m seed=0,1 run_dir=run", "error: run_dir=run is that of every run; try 'run_dir=runs/seed${seed}'\n"),
        (evaluate, "-m instances=kool/tsp20 seed=0,1 out_dir=x", "out_dir=x is that of every run; try 'o"),
        (train, "device=cpu:0", "device=cpu:0 cannot be used: all cores are one device, device=cpu"),
        (train, "seed=[0,1]", "seed must be an integer of at least 0, got [0, 1]"),
        (train, "problem=jssp method=reconstruct", "no random reconstruction for jssp"),
        (train, "problem=cvrp method=wor search.equivalents=9", "equivalents must be at most 8 for these cvrp"),
        (train, "method=wor search.replan_steps=3", "search.replan_steps has no effect on wor"),
        (train, "method=wor search.temperature=0", "temperature must be a number above 0"),
        (train, "method=greedy 'search={beam_width: 3}'", "error: search.beam_width has no effect on greedy\n"),
        (train, "methods=3", "error: methods=3: a search method is chosen with method=\n"),
        (
            evaluate,
            "checkpoint=x instances=kool/tsp20 methods.wor=3",
            "error: methods.wor=3: a search method is chosen with method=\n",
        ),
        (train, "-m search=wor,gumbeldore", "error: search=wor,gumbeldore: a search method is chosen with method=\n"),
        (evaluate, "checkpoint=x instances=[a.tsp,b.tsp]", "instances must be text, got ['a.tsp', 'b.tsp']"),
        (study, "instances=kool/tsp20", "checkpoint must be given"),
        (evaluate, "instances=kool/tsp21", "neither a file or folder nor a standard set"),
        (evaluate, "checkpoint=none.pt instances=kool/tsp20", "there is no checkpoint none.pt"),
        (evaluate, "data/my.tsp", "words are key=value: instances=data/my.tsp\n"),
        (evaluate, "instances=data/my.tsp greedy", "words are key=value: method=greedy\n"),
        (train, "tsp", "words are key=value: problem=tsp\n"),
        (train, "epochs=3", "there is no key epochs; did you mean train.epochs? The keys are"),
        (train, "'run_dir=${oc.env:NOPE}'", "error: run_dir: KeyError raised while resolving interpolation: "),
        *(
            (train, f"-m seed=0,1 hydra.{part}._target_=os.getcwd", "Hydra's own classes cannot be changed")
            for part in ("launcher", "sweeper", "callbacks.mine")
        ),
        (train, "ray=null", "error: ray=null: ray has the keys address; change one of these\n"),
        (evaluate, "instances=kool/tsp20 solver=3", "error: solver=3: solver has the keys time_limit, "),
        (train, "problem=jssp 'problem.sizes={a: 1}'", "problem.sizes={a: 1}: problem.sizes must be a list or null"),
        (train, "problem=jssp problem.sizes=[[1000000000,1000000000]]", "memory does not suffice for instances of"),
        (train, "problem=jssp problem.sizes=[[4611686018427387904,4]]", "memory does not suffice for instances of"),
        (train, "problem.grow=[50,0.5]", "problem.grow has no effect where it begins with instances as large as"),
        (
            evaluate,
            "checkpoint=tsp20 instances=/proc/self/mem",
            "error: /proc/self/mem: it cannot be read: Input/output error",
        ),
        (evaluate, "time_limit=3", "did you mean search.time_limit or solver.time_limit? The keys"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_starts(program, words, message, tmp_path):
    assert message in refused(program, *shlex.split(words), cwd=tmp_path) and not list(tmp_path.iterdir())


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
