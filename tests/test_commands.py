"""The commands as a user types them: every configuration composes, every mistake is one clear line."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import hydra
import pytest
import torch
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

import train
from configs import command
from gumbeldore import checkpoint, settings
from models.bq import BQ
from problems.tsp import TSP

ROOT = Path(__file__).parent.parent
CONFIGS = ROOT / "configs"


def compose(name, *overrides):
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return hydra.compose(name, list(overrides))


def options(group):
    return [f"{group}={path.stem}" for path in sorted((CONFIGS / group).glob("*.yaml"))]


def problem_of(choice):
    """The problem that a network, an experiment or the option of another group belongs to."""
    return next((name for name, words in OF_PROBLEM.items() if any(word in choice for word in words)), "tsp")


OF_PROBLEM = {"cvrp": ["cvrp"], "jssp": ["jssp", "job_shop"]}
NOT_FOR_TRAINING = ("search=rules", "search=solver", "train=supervised")


@pytest.mark.parametrize(
    "choice",
    [
        x
        for group in ("problem", "model", "search", "experiment", "debug", "train")
        for x in options(group)
        if x not in NOT_FOR_TRAINING
    ],
)
def test_every_configuration_builds(choice):
    words = [choice] if choice.startswith("experiment") else [f"problem={problem_of(choice)}", choice]
    setup = train.set_up(compose("train", *dict.fromkeys(words)))
    assert isinstance(setup.policy, torch.nn.Module) and setup.problem.name == problem_of(choice)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("search=rules", "training samples with a search, not with search=rules"),
        ("search=solver", "training samples with a search, not with search=solver"),
        ("train=supervised", "Missing mandatory value: train.experts"),
        ("model=job_shop", "model models.job_shop.JobShop is not for problem tsp"),
    ],
)
def test_what_does_not_fit_training_is_refused(choice, message):
    with pytest.raises((ValueError, MissingMandatoryValue), match=re.escape(message)):
        train.set_up(compose("train", choice))


def test_paper_recipe_of_the_tsp():
    cfg = compose("train", "experiment=tsp100")
    setup = train.set_up(cfg)
    assert (len(setup.policy.layers), setup.policy.embed.out_features, setup.policy.layers[0].heads) == (9, 128, 8)
    assert setup.policy.layers[0].widen.out_features == 512
    assert (setup.search.beam_width, setup.search.num_rounds, setup.search.update.step_size) == (32, 4, 0.3)
    assert setup.search.top_p == (0.95, 1.0) and setup.settings.nucleus_after == 500
    assert (setup.settings.instances_per_epoch, setup.settings.batches_per_epoch) == (1000, 1000)
    assert (setup.settings.batch_size, setup.settings.validation_instances) == (1024, 10_000)
    assert setup.settings.learning_rate == setup.settings.final_learning_rate == 2e-4
    assert setup.settings.epochs == 2200 and setup.problem.num_nodes == 100


def test_paper_recipe_of_the_cvrp():
    setup = train.set_up(compose("train", "experiment=cvrp100"))
    assert (len(setup.policy.layers), setup.policy.embed.out_features, setup.policy.layers[0].heads) == (9, 192, 12)
    assert setup.policy.layers[0].widen.out_features == 512
    assert (setup.search.beam_width, setup.search.num_rounds, setup.search.update.step_size) == (32, 4, 3.0)
    assert setup.search.top_p == (0.95, 1.0) and setup.settings.nucleus_after == 500
    assert (setup.settings.instances_per_epoch, setup.settings.batches_per_epoch) == (1000, 1000)
    assert (setup.settings.batch_size, setup.settings.validation_instances) == (1024, 10_000)
    assert setup.settings.learning_rate == setup.settings.final_learning_rate == 2e-4
    assert setup.problem.num_customers == 100 and setup.problem.capacity == (40, 100)


def test_paper_recipe_of_the_jssp():
    setup = train.set_up(compose("train", "experiment=jssp"))
    policy = setup.policy
    assert (len(policy.job_wise), len(policy.machine_wise), policy.embed.out_features) == (3, 3, 64)
    assert (policy.between_jobs.heads, policy.between_jobs.widen.out_features) == (8, 256)
    assert policy.embed.in_features == 2 and policy.order_loss == 0 and not setup.problem.chronological
    assert (setup.search.beam_width, setup.search.num_rounds, setup.search.update.step_size) == (32, 4, 0.05)
    assert setup.search.top_p == (0.95, 1.0) and setup.settings.nucleus_after == 50
    assert (setup.settings.instances_per_epoch, setup.settings.batches_per_epoch) == (512, 1000)
    assert (setup.settings.batch_size, setup.settings.validation_instances, setup.settings.epochs) == (512, 100, 100)
    assert setup.settings.learning_rate == setup.settings.final_learning_rate == 2e-4
    assert setup.problem.sizes == [(15, 10), (15, 15), (15, 20)] and setup.problem.validation_size == (20, 20)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.batch_size=0", "train.batch_size must be an integer at least 1, got 0"),
        ("train.batch_size=abc", "train.batch_size must be an integer"),
        ("train.epochs=-1", "train.epochs must be an integer at least 0"),
        ("train.learning_rate=0", "train.learning_rate must be a number above 0"),
        ("train.learning_rate=.nan", "train.learning_rate must be a number above 0"),
        ("train.dataset_capacity=0", "train.dataset_capacity must be an integer at least 1 or null"),
        ("search.beam_width=0", "beam_width must be an integer of at least 1"),
        ("search.step_size=-1", "step_size must be finite and at least 0"),
        ("search.top_p_start=1.5", "top_p must be two probabilities"),
        ("search.baseline=median", "baseline must be one of"),
        ("problem.num_nodes=2", "problem: num_nodes must be at least 3"),
        ("problem._target_=os.system", "problem._target_=os.system is not a class"),
        ("problem._target_=models.bq.BQ", "lacks reset, step, mask, cost"),
        ("model.heads=5", "model: width must be a multiple of heads"),
        ("seed=-1", "seed must be an integer at least 0"),
        ("seed=true", "seed must be an integer"),
        ("chunk_rows=0", "chunk_rows must be an integer at least 1"),
        ("worker_threads=0", "worker_threads must be an integer at least 1"),
        ("images_every=0", "images_every must be an integer at least 1"),
        ("workers=-2", "workers must be 'auto' or an integer"),
        ("device=abacus", "device=abacus cannot be used"),
        ("device=cuda:99", "device=cuda:99 cannot be used"),
        ("precision=int4", "precision must be one of auto, bf16, float32"),
        ("time_limit=-5", "time_limit must be a number above 0"),
        ("search=[greedy,wor]", "one search method"),
    ],
)
def test_wrong_values_name_the_key_and_what_is_allowed(override, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        train.set_up(compose("train", override))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("problem.num_node=30", "there is no key problem.num_node; problem has num_nodes"),
        ("train.batchsize=30", "train has batch_size, batches_per_epoch"),
        ("sed=1", "there is no key sed; did you mean seed"),
        ("search.sigma=1", "search has baseline, beam_width"),
        ("+extra=1", "keys can be changed, not added"),
        ("~seed", "keys can be changed, not added"),
    ],
)
def test_unknown_keys_are_errors(word, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        command.check_overrides([word], "train")


def test_known_keys_pass():
    command.check_overrides(["problem=tsp", "model=bq", "model.width=64", "experiment=tsp100", "search=wor"], "train")
    command.check_overrides(["search=[greedy,wor]", "search.beam_width=4", "checkpoint=x"], "evaluate")


def used_attributes(*paths):
    return {
        node.attr for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
    }


def test_no_key_without_effect():
    """Every key is a field of a checked settings class, an argument of a method or of a constructor - and is read."""
    cfg = compose("train")
    own = {key for key in cfg if not OmegaConf.is_config(cfg[key])}
    assert own == {field.name for field in fields(settings.RunSettings)}
    assert set(cfg.train) == {field.name for field in fields(settings.TrainSettings)}
    core = [*(ROOT / "gumbeldore").glob("*.py"), ROOT / "train.py", ROOT / "evaluate.py"]
    read = used_attributes(*core)
    for kind in (settings.RunSettings, settings.TrainSettings, settings.EvaluationSettings):
        assert {field.name for field in fields(kind)} <= read
    evaluation = compose("evaluate", "checkpoint=a", "instances=b")
    own = {key for key in evaluation if not OmegaConf.is_config(evaluation[key])}
    assert own == {field.name for field in fields(settings.EvaluationSettings)}
    methods = "".join(path.read_text() for path in (CONFIGS / "search").glob("*.yaml"))
    assert all(f"${{search.{key}}}" in methods for key in cfg.search)  # and test_search shows what each changes


def run(script, *words, cwd, env=None):
    return subprocess.run([sys.executable, str(ROOT / script), *words], cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        ("train.py", ["problem.num_node=3"], "there is no key problem.num_node"),
        ("train.py", ["train.batch_size=0"], "train.batch_size must be"),
        ("train.py", ["resume=nowhere"], "resume=nowhere: there is no"),
        ("train.py", ["problem=chess"], "chess"),
        ("evaluate.py", ["instances=kool/tsp20"], "Missing mandatory value: checkpoint"),
        ("evaluate.py", ["checkpoint=none.pt", "instances=kool/tsp20"], "there is no checkpoint none.pt"),
    ],
)
def test_mistakes_end_in_one_line_before_anything_starts(script, words, message, tmp_path):
    result = run(script, *words, cwd=tmp_path)
    assert result.returncode != 0 and message in result.stderr and "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["train.py", "evaluate.py"])
def test_help_reads_well(script, tmp_path):
    result = run(script, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert (
        f"python {script} " in result.stdout
        and "search: beam, greedy, gumbeldore, rules, sampling, solver, theory, wor" in result.stdout
    )
    assert "hydra:" not in result.stdout and list(tmp_path.iterdir()) == []


# ---- evaluation


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    """A checkpoint of an untrained policy."""
    torch.manual_seed(0)
    cfg = compose("train", "debug=fast", "model.layers=1")
    path = tmp_path_factory.mktemp("policy") / "best.pt"
    weights = BQ(**{key: value for key, value in cfg.model.items() if key != "_target_"}).state_dict()
    content = {"config": OmegaConf.to_container(cfg, resolve=True), "problem": "tsp", "weights": weights}
    checkpoint.save(path, content)
    return path


def evaluation(policy_file, tmp_path, *words):
    out = tmp_path / "out"
    words = [f"checkpoint={policy_file}", f"out_dir={out}", "workers=0", *words]
    result = run("evaluate.py", *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    lines = (out / "results.csv").read_text().splitlines()
    return json.loads((out / "results.json").read_text()), lines, result.stdout


def test_evaluation_reports_gaps_and_tours(policy_file, tmp_path):
    words = ["instances=kool/tsp20", "num_instances=6", "search=[greedy,gumbeldore]", "search.beam_width=4"]
    content, lines, output = evaluation(policy_file, tmp_path, *words, "precision=float32")
    assert list(content["methods"]) == ["greedy", "gumbeldore"]
    assert {"checkpoint", "instances", "hardware", "command"} <= set(content)
    assert len(lines) == 1 + 2 * 6
    references = TSP(20).load("kool/tsp20", 6)[0].references
    for index, method in enumerate(("greedy", "gumbeldore")):
        rows = [line.split(",") for line in lines[1 + 6 * index : 7 + 6 * index]]
        benchmark = TSP(20).load("kool/tsp20", 6)[0]
        tours = torch.tensor([[int(node) for node in row[7].split()] for row in rows])
        assert (tours[:, 0] == 0).all()
        costs = benchmark.true_cost(torch.arange(6), tours[:, 1:])
        assert [float(row[2]) for row in rows] == pytest.approx(costs.tolist())
        result = content["methods"][method]
        assert result["mean_cost"] == pytest.approx(costs.mean().item()) and result["num_instances"] == 6
        assert result["mean_gap"] == pytest.approx((costs / references - 1).mean().item())
        assert result["reference"] == "LKH" and result["seconds"] > 0
        assert f"{result['mean_gap']:.3%}" in output
    assert content["methods"]["gumbeldore"]["solutions"] == 16 * content["methods"]["greedy"]["solutions"] == 96


def test_one_file_without_a_reference_has_no_gap(policy_file, tmp_path):
    file = tmp_path / "mine.tsp"
    nodes = "\n".join(f"{i + 1} {(37 * i) % 101} {(61 * i) % 97}" for i in range(9))
    file.write_text(
        f"NAME: mine\nTYPE: TSP\nDIMENSION: 9\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n{nodes}\nEOF\n"
    )
    content, lines, output = evaluation(policy_file, tmp_path, f"instances={file}", "search=wor", "search.num_rounds=3")
    assert content["methods"]["wor"]["mean_gap"] is None and content["methods"]["wor"]["reference"] is None
    assert "no reference" in output and lines[1].split(",")[1:5] == ["mine", lines[1].split(",")[2], "", ""]
    assert float(lines[1].split(",")[2]).is_integer()  # EUC_2D rounds each edge


def test_a_folder_of_mixed_sizes(policy_file, tmp_path):
    content, lines, _ = evaluation(policy_file, tmp_path, f"instances={ROOT / 'tests' / 'data'}")
    names = [line.split(",")[1] for line in lines[1:]]
    assert len(names) >= 3 and {"berlin52", "eil51", "kroA100"} <= set(names)
    assert content["methods"]["greedy"]["num_instances"] == len(names)


def test_more_time_finds_more(policy_file, tmp_path):
    words = ["instances=kool/tsp20", "num_instances=2", "search=wor", "search.beam_width=4", "search.num_rounds=1"]
    content, *_ = evaluation(policy_file, tmp_path, *words, "search.time_limit=0.5")
    assert content["methods"]["wor"]["solutions"] > 2 * 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["instances=kool/tsp21"], "unknown source 'kool/tsp21'"),
        (["instances=kool/tsp20", "search.beam_width=4"], "search.beam_width has no effect on greedy"),
        (["instances=kool/tsp20", "num_instances=20000"], "20000"),
        (["instances=kool/tsp20", "search=fastest"], "fastest"),
    ],
)
def test_wrong_evaluations_are_refused(policy_file, tmp_path, words, message):
    result = run("evaluate.py", f"checkpoint={policy_file}", *words, cwd=tmp_path)
    assert result.returncode != 0 and message in result.stderr and "Traceback" not in result.stderr


def test_a_checkpoint_cannot_name_a_function_to_call(policy_file, tmp_path):
    content = checkpoint.load(policy_file)
    content["config"]["model"] = {"_target_": "os.mkdir", "path": str(tmp_path / "trapped")}
    checkpoint.save(tmp_path / "evil.pt", content)
    result = run("evaluate.py", f"checkpoint={tmp_path / 'evil.pt'}", "instances=kool/tsp20", cwd=tmp_path)
    assert result.returncode == 2 and "model._target_=os.mkdir is not a class" in result.stderr
    assert not (tmp_path / "trapped").exists()


# ---- the README

SHORT = {
    "train.py": [
        *["train.epochs=2", "train.instances_per_epoch=4", "train.batches_per_epoch=2", "train.batch_size=8"],
        *["train.validation_instances=8", "search.beam_width=2", "search.num_rounds=2", "model.layers=1"],
    ],
    "evaluate.py": ["num_instances=2"],
}


def readme_commands():
    blocks = re.findall(r"```(?:bash|sh)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("#")[0].strip() for line in lines if line.startswith("python ")]


def test_readme_commands_run(tmp_path):
    """In their order, copied and shortened, beside the repository's files."""
    commands = readme_commands()
    assert len(commands) >= 4
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    for line in commands:
        _, script, *words = shlex.split(line)
        single = "instances=tests/data/berlin52.tsp" in words
        resumed = any(word.startswith("resume=") for word in words)
        short = [] if single or resumed or "--help" in words else SHORT[script]
        given = {word.split("=")[0] for word in words}
        short = [word for word in short if word.split("=")[0] not in given or word.startswith("num_instances")]
        words = [word for word in words if not (word.startswith("num_instances") and short)]
        result = run(script, *words, *short, cwd=tmp_path)
        assert result.returncode == 0, f"{line}\n{result.stdout}\n{result.stderr}"


def test_readme_python_runs(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        result = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, f"{block}\n{result.stderr}"
