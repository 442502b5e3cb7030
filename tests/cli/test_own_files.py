"""Files of the user's (--config-dir), words and classes with a mistake: one line, before anything is done."""

from __future__ import annotations

import pytest
from torch import nn

import evaluate
import train
from gumbeldore.cli.words import check_overrides
from gumbeldore.interfaces import Policy
from gumbeldore.runtime.building import build
from tests.helpers.commands import compose, typed
from tests.helpers.studies import searches_of

EXPERIMENTS = {  # what the file adds, and the beginning of the error
    "unknown": ("nonsense: 1", "error: there is no key nonsense; the keys are checkpoint_every, compile, device, "),
    "search": ("search: {nonsense: 3}", "error: there is no key search.nonsense; search has baseline, beam_width, "),
    "train": (
        "train: {epoch: 3}",
        "error: there is no key train.epoch; train has algorithm, batch_size, batches_",
    ),
    "model": ("model: {widht: 3}", "error: there is no key model.widht; model has canonical"),
    "problem": ("problem: {size: 3}", "error: there is no key problem.size; problem has distances, distribution, grow"),
}


@pytest.mark.parametrize("case", EXPERIMENTS)
def test_keys_of_an_experiment_are_checked(case, tmp_path):
    (tmp_path / "own/experiment").mkdir(parents=True)
    added, message = EXPERIMENTS[case]
    (tmp_path / "own/experiment/mine.yaml").write_text(f"# @package _global_\n{added}\n")
    result = typed(train, "--config-dir", "own", "experiment=mine", "debug=fast", cwd=tmp_path)
    assert result.returncode == 2 and result.stderr.startswith(message), result.stderr
    assert result.stderr.count("\n") == 1 and not (tmp_path / "runs").exists()


OWN_OPTIONS = {  # of train= or method=: the group, the file, what the error says
    "instances alone": ("train", "instances: kool/tsp20", "train.instances has no effect on train=self_improvement"),
    "pool of another": (
        "train",
        "algorithm: supervised\nexperts: x.npz\npool: 3",
        "train.pool has no effect on train=supervised",
    ),
    "unknown": ("train", "algorithm: mine", "train.algorithm must be one of self_improvement, supervised"),
    "no package": (
        "method",
        "_target_: gumbeldore.methods.Greedy",
        "begins with the line `# @package methods.<its name>`",
    ),
    "no target": ("method", "# @package methods.mine\nshare: 3", "method._target_=None cannot be imported"),
}


@pytest.mark.parametrize("case", OWN_OPTIONS)
def test_an_own_option_says_what_it_is(case, tmp_path):
    group, text, message = OWN_OPTIONS[case]
    (tmp_path / "own" / group).mkdir(parents=True)
    (tmp_path / "own" / group / "mine.yaml").write_text(text + "\n")
    result = typed(train, "--config-dir", "own", f"{group}=mine", "debug=fast", cwd=tmp_path)
    assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1, result.stderr


CHECKPOINT = ["checkpoint=x", "instances=kool/tsp20"]


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        (train, ["methods=3"], "methods=3: a search method is chosen with method="),
        (evaluate, [*CHECKPOINT, "methods.wor=3"], "methods.wor=3: a search method is chosen with method="),
        (train, ["method=greedy", "search={beam_width: 3}"], "search.beam_width has no effect on greedy"),
        (train, ["-m", "search=wor,gumbeldore"], "search=wor,gumbeldore: a search method is chosen with method="),
    ],
)
def test_words(program, words, message, tmp_path):
    result = typed(program, *words, cwd=tmp_path)
    assert result.returncode == 2 and result.stderr == f"error: {message}\n"


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
