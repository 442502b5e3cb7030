"""Files of the user's (--config-dir), words and classes with a mistake: one line, before anything is done."""

from __future__ import annotations

import pytest
from torch import nn

import train
from gumbeldore.cli.words import check_overrides
from gumbeldore.interfaces import Policy
from gumbeldore.runtime.building import build
from tests.helpers.commands import compose, refused
from tests.helpers.pages import write
from tests.helpers.studies import searches_of

OWN_OPTIONS = {  # the group, what the file says, what the error says
    "unknown key": ("experiment", "nonsense: 1", "there is no key nonsense; the keys are checkpoint_every, compile, "),
    "of search": ("experiment", "search: {nonsense: 3}", "there is no key search.nonsense; search has baseline, beam_"),
    "of train": ("experiment", "train: {epoch: 3}", "there is no key train.epoch; train has algorithm, batch_size, "),
    "of model": ("experiment", "model: {widht: 3}", "there is no key model.widht; model has canonical"),
    "of problem": ("experiment", "problem: {size: 3}", "there is no key problem.size; problem has distances, distrib"),
    "instances alone": ("train", "instances: kool/tsp20", "train.instances has no effect on train=self_improvement"),
    "pool": ("train", "algorithm: supervised\nexperts: x.npz\npool: 3", "train.pool has no effect on train=supervised"),
    "algorithm": ("train", "algorithm: mine", "train.algorithm must be one of self_improvement, supervised"),
    "no package": ("method", "_target_: gumbeldore.methods.Greedy", "the line `# @package methods.<its name>`"),
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
