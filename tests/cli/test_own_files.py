"""Files, classes and a search method of the user's (--config-dir): what they do, and a mistake is one line."""

from __future__ import annotations

import importlib
import json
import sys

import pytest
import torch
from omegaconf import OmegaConf
from torch import nn

import evaluate
import study
import train
from gumbeldore import Policy, methods, search
from gumbeldore.cli.methods import search_keys
from gumbeldore.cli.words import check_overrides
from gumbeldore.runtime.building import build
from tests.helpers.commands import compose, configured, done, refused
from tests.helpers.pages import files_of, page, write
from tests.helpers.studies import searches_of
from tests.helpers.trees import TablePolicy, TreeProblem

OWN_OPTIONS = {  # the group, what the file says, what the error says
    "unknown key": (
        "experiment",
        "nonsense: 1",
        "error: there is no key nonsense; the keys are checkpoint_every, compile, device, ",
    ),
    "of search": (
        "experiment",
        "search: {nonsense: 3}",
        "error: there is no key search.nonsense; search has baseline, beam_width, ",
    ),
    "of train": (
        "experiment",
        "train: {epoch: 3}",
        "error: there is no key train.epoch; train has algorithm, batch_size, batches_",
    ),
    "of model": ("experiment", "model: {widht: 3}", "error: there is no key model.widht; model has canonical"),
    "of problem": (
        "experiment",
        "problem: {size: 3}",
        "error: there is no key problem.size; problem has distances, distribution, grow",
    ),
    "instances alone": ("train", "instances: kool/tsp20", "train.instances has no effect on train=self_improvement"),
    "pool": ("train", "algorithm: supervised\nexperts: x.npz\npool: 3", "train.pool has no effect on train=supervised"),
    "algorithm": ("train", "algorithm: mine", "train.algorithm must be one of self_improvement, supervised"),
    "no package": (
        "method",
        "_target_: gumbeldore.methods.Greedy",
        "begins with the line `# @package methods.<its name>`",
    ),
    "no target": ("method", "# @package methods.mine\nshare: 3", "method._target_=None cannot be imported"),
}


@pytest.mark.parametrize("case", OWN_OPTIONS)
def test_an_own_option_is_checked(case, tmp_path):
    group, text, message = OWN_OPTIONS[case]
    package = "# @package _global_\n" if group == "experiment" else ""
    write({f"own/{group}/mine.yaml": f"{package}{text}\n"}, tmp_path)
    assert message in refused(train, "--config-dir", "own", f"{group}=mine", "debug=fast", cwd=tmp_path)


def test_the_settings_of_search_can_be_given_together():
    check_overrides(["search={beam_width: 4}"], "train")
    assert compose("train", "search={beam_width: 4}").search.beam_width == 4


class Anything:
    def __init__(self, **values):
        self.values = values


def test_a_class_that_takes_any_value_is_given_it():
    assert build({"_target_": f"{__name__}.Anything", "share": 3}, "model").values == {"share": 3}


def test_a_study_of_no_values_is_refused():
    with pytest.raises(ValueError, match=r"search.num_rounds=\[\]: there must be one value at least"):
        searches_of("search.step_size=1", "search.num_rounds=[]")


class NoForward(Policy):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)


class NoInit(Policy):
    def __init__(self):
        self.layer = nn.Linear(2, 2)

    def forward(self, context, state):
        return self.layer(state)


def test_classes_that_cannot_work_are_refused():
    with pytest.raises(ValueError, match="NoForward lacks forward$"):
        build({"_target_": f"{__name__}.NoForward"}, "model", Policy)
    with pytest.raises(ValueError, match="^model: cannot assign module before Module.__init__"):
        build({"_target_": f"{__name__}.NoInit"}, "model", Policy)


# ---- a search method, as docs/extend.md#a-search-method writes it: trained, evaluated, studied

SMALL = ["search.beam_width=2", "workers=0"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's files, and its classes importable."""
    write(files_of(page("extend")), tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("narrowing", None)
    sys.modules.pop("elite", None)


def own(folder, *words):
    path = f"hydra.searchpath=['file://{folder}']"
    return configured("train", path, "method=narrowing", "search.beam_width=4", "search.num_rounds=3", *words)


def found(config):
    trees = TreeProblem().generate(200, torch.Generator().manual_seed(3))
    return search(TreeProblem(), TablePolicy(), trees, config, keys=torch.arange(200))


def test_the_class_is_given_its_fields_of_search_and_its_own(folder):
    narrowing = importlib.import_module("narrowing").Narrowing
    config = own(folder)
    assert config.training_search() == narrowing(4, 3, 0.9)
    half = own(folder, "methods.narrowing.factor=0.5")
    assert half.training_search() == narrowing(4, 3, 0.5)
    half.refuse_unread()
    wrapped = methods.Equivalents(narrowing(4, 3, 0.9), 2)
    assert own(folder, "search.equivalents=2").training_search() == wrapped
    keys = ["beam_width", "num_rounds", "equivalents", "time_limit"]
    assert search_keys(config.cfg.methods.narrowing, config.cfg.search) == keys


def test_its_own_file_wins_over_search(folder):
    config = own(folder)
    OmegaConf.update(config.cfg, "methods.narrowing.num_rounds", 8, force_add=True)
    assert config.training_search().num_rounds == 8
    assert "num_rounds" not in search_keys(config.cfg.methods.narrowing, config.cfg.search)


def test_its_rounds_come_from_smaller_nuclei(folder):
    narrowing = importlib.import_module("narrowing").Narrowing
    plain, first, small = found(methods.Sampling(8, 2)), found(narrowing(8, 2, 1.0)), found(narrowing(8, 2, 0.6))
    assert torch.equal(plain.actions, first.actions)
    early, late = small.log_probs[:, :8].mean(), small.log_probs[:, 8:].mean()  # of two rounds
    assert late > early + 0.02 and early > plain.log_probs.mean() + 0.3
    limited = found(methods.Anytime(narrowing(8, 2), 0.001))
    assert limited.best()[1].mean() <= found(methods.Greedy()).best()[1].mean()


def test_its_own_update_prefers_the_edges_of_the_best_solution(folder):
    elite = importlib.import_module("elite").Elite

    def likeness(result):
        """How many of the first decisions of the second round are those of the first round's best solution."""
        best = result.actions.gather(1, result.costs[:, :2].argmin(dim=1)[:, None, None].expand(-1, 1, 3))
        return (result.actions[:, 2:, 0] == best[..., 0])[result.valid[:, 2:]].double().mean().item()

    without, none, much = found(methods.WithoutReplacement(2, 2)), found(elite(2, 2, 0.0)), found(elite(2, 2, 3.0))
    assert torch.equal(without.actions, none.actions)
    assert likeness(much) > likeness(none) + 0.1


@pytest.mark.slow
def test_it_trains_evaluates_and_studies(folder):
    def run(program, *words):
        done(program, "--config-dir", ".", *words, *SMALL, cwd=folder)

    words = ["debug=fast", "problem.num_nodes=6", "problem.grow=null", "images_every=9", "run_dir=run"]
    run(train, "method=narrowing", "methods.narrowing.factor=0.7", *words)
    assert OmegaConf.load(folder / "run/config.yaml").methods.narrowing.factor == 0.7
    asked = ["checkpoint=run", "instances=kool/tsp20", "num_instances=2"]
    run(evaluate, "method=[greedy,narrowing,gumbeldore]", *asked, "search.top_p_start=1", "out_dir=evaluated")
    found = json.loads((folder / "evaluated/results.json").read_text())["methods"]
    assert list(found) == ["greedy", "narrowing", "gumbeldore"]
    lists = ["search.num_rounds=[1,2]", "search.equivalents=[1,2]"]
    run(study, "method=narrowing", *asked, *lists, "repetitions=2", "out_dir=studied")
    points = json.loads((folder / "studied/study.json").read_text())["points"]
    once, twice = (f"narrowing, equivalents={count}" for count in (1, 2))
    assert [(x["curve"], x["samples"]) for x in points] == [(once, 2), (once, 4), (twice, 4), (twice, 8)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method=narrowing", "search.top_p_start=0.9"], "search.top_p_start has no effect on narrowing"),
        (["method=narrowing", "methods.narrowing.facto=1"], "methods.narrowing has factor"),
        (["method=absent"], "method._target_=nowhere.absent cannot be imported: No module named 'nowhere'"),
        (["method=neither"], "method=neither must be a Method or a Baseline, got Fraction"),
        (["method=broken"], "method=broken: factor must be a number above 0 and at most 1, got 2"),
    ],
)
def test_mistakes_with_it_end_in_one_line(words, message, folder, monkeypatch):
    targets = {"absent": "nowhere.absent", "neither": "fractions.Fraction", "broken": "narrowing.Narrowing\nfactor: 2"}
    files = {f"method/{name}.yaml": f"# @package methods.{name}\n_target_: {x}\n" for name, x in targets.items()}
    write(files, folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert message in refused(train, "--config-dir", ".", *words, cwd=folder)
