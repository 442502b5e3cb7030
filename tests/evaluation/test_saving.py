"""Policies that are saved from Python: what they are made with, and who takes the file."""

from __future__ import annotations

import copy
import math
import os
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import evaluate
import gumbeldore
from gumbeldore import Policy
from gumbeldore.cli.setup import set_up
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.files import SUFFIX
from models.bq_tsp import BQ
from problems.jssp.instances import random_instances
from problems.tsp import TSP
from tests.helpers.commands import ROOT, configured, done, refused

FILE = ROOT / "tests" / "data" / "ulysses16.tsp"
MODEL = {"width": 16, "layers": 1, "heads": 2, "feedforward": 32}


class Scorer(Policy):
    """As a user may write one."""

    def __init__(self, width, *, scale=1.0, start=None, **more):
        super().__init__()
        self.layer, self.scale = nn.Linear(2, width), scale

    def forward(self, context, state):
        return self.scale * self.layer(context.coords).sum(dim=-1)


class Wider(Scorer):
    def __init__(self, times):
        super().__init__(8 * times)


@dataclass(eq=False)
class Generated(Policy):
    width: int

    def forward(self, context, state):
        raise NotImplementedError


def bq():
    return BQ(16, 1, 2, 32, canonical_coordinates=True, successor_loss=1)


@pytest.mark.parametrize("name", ["tsp20", "cvrp20", "jssp"])
def test_a_policy_is_loaded_as_it_was_saved(name, tmp_path):
    loaded = gumbeldore.load_policy(name)
    gumbeldore.save_policy(tmp_path / "my.pt", *loaded[:2], step_size=loaded.config["search"]["step_size"])
    again = gumbeldore.load_policy(tmp_path / "my.pt")
    weights = loaded.policy.state_dict()
    assert all(torch.equal(weight, weights[key]) for key, weight in again.policy.state_dict().items())
    for part in ("problem", "model"):
        given, kept = ({k: v for k, v in x.config[part].items() if k != "_target_"} for x in (loaded, again))
        assert kept == {**kept, **given}
    assert again.config["search"]["step_size"] == loaded.config["search"]["step_size"]


def test_what_is_in_view_of_large_instances_is_kept(tmp_path):
    large = random_instances(1, 101, 50, torch.Generator().manual_seed(0))
    for values, seen in (({}, 250), ({"window": "all"}, 5050), ({"window": 2}, 202)):
        loaded = gumbeldore.load_policy("jssp", **values)
        gumbeldore.save_policy(tmp_path / "my.pt", *loaded[:2], overwrite=True)
        again = gumbeldore.load_policy(tmp_path / "my.pt")
        assert [x.problem.reset(large).view.shape[1] for x in (loaded, again)] == [seen, seen]


def test_who_takes_a_checkpoint_takes_it(tmp_path):
    """Also of a copy, as training keeps the best policy, and what was a training before: init=."""
    policy = copy.deepcopy(bq())
    gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), policy, step_size=0.3)
    ours = gumbeldore.solve((TSP(8), policy), FILE, method=gumbeldore.methods.Gumbeldore(4, 1, 0.3, top_p_start=0.8))
    result = gumbeldore.solve(tmp_path / "my.pt", FILE, beam_width=4, num_rounds=1)
    assert result.tour == ours.tour and result.policy == str(tmp_path / "my.pt")
    words = [f"instances={FILE}", "method=gumbeldore", "search.beam_width=4", "search.num_rounds=1", "out_dir=out"]
    assert f"{result.cost:.0f}" in done(evaluate, "checkpoint=my.pt", *words, "workers=0", cwd=tmp_path).stdout
    model = [f"model.{key}={value}" for key, value in MODEL.items()]
    words = [f"init={tmp_path}/my.pt", "problem.num_nodes=8", *model, "train.validation_instances=2"]
    trained = set_up(configured("train", *words)).policy.state_dict()
    assert all(torch.equal(weight, trained[name]) for name, weight in policy.state_dict().items())


def test_arguments_are_those_of_the_class_that_was_called(tmp_path):
    for policy, values in (
        (Wider(2), {"times": 2}),
        (Scorer(4), {"width": 4, "scale": 1.0, "start": None}),
        (Scorer(width=np.int64(4).item(), scale=np.float64(0.5), other=[1, (2.0, "x")]), {"other": [1, [2.0, "x"]]}),
    ):
        gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), policy, overwrite=True)
        again = gumbeldore.load_policy(tmp_path / "my.pt")
        assert type(again.policy) is type(policy) and again.problem.num_nodes == 8
        assert again.config["model"].items() >= values.items() and again.policy.scale == policy.scale


NO_STEP_SIZE = r"the policy has no step size of a training: .* methods.Gumbeldore\(...\) with one"


def test_without_a_step_size_the_searches_that_need_one_ask_for_it(tmp_path):
    gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), bq())
    assert sorted(gumbeldore.solve(tmp_path / "my.pt", FILE, method="greedy").tour) == list(range(16))
    with pytest.raises(ValueError, match=NO_STEP_SIZE):
        gumbeldore.solve(tmp_path / "my.pt", FILE)
    line = refused(evaluate, "checkpoint=my.pt", f"instances={FILE}", "workers=0", "method=gumbeldore", cwd=tmp_path)
    assert "method=gumbeldore: search.step_size must be given: the policy" in line


def in_a_function():
    class Local(Scorer):
        pass

    return Local(4)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (in_a_function, "model: .*Local cannot be found when the file is loaded; its class must be in a module"),
        (lambda: Scorer(4, start=torch.zeros(2)), "model: start is of type Tensor; numbers, texts, true"),
        (lambda: Scorer(np.int64(4)), "model: width is of type int64; numbers, texts"),
        (lambda: Generated(4), r"model: \S+Generated does not say what it was made with \(missing .* 'width'\)"),
        (lambda: gumbeldore.load_policy("cvrp20").policy, "the policy is for cvrp, not for tsp"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(policy, message, tmp_path):
    with pytest.raises(ValueError, match=rf"^{tmp_path}/my.pt cannot be written: {message}"):
        gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), policy())
    assert not list(tmp_path.iterdir())


def test_problem_and_policy_come_in_this_order(tmp_path):
    with pytest.raises(ValueError, match="a path, a Problem and a Policy, in this order; got .*Path, BQ and TSP"):
        gumbeldore.save_policy(tmp_path / "my.pt", bq(), TSP(8))


def test_a_network_that_has_changed_since_it_was_made_is_not_saved(tmp_path):
    other, spoiled = Scorer(4), Scorer(4)
    other.layer = nn.Linear(2, 5)
    spoiled.layer.bias.data[0] = torch.nan
    rules = (".*size mismatch for layer.weight", "weights.layer.bias holds NaN or infinity")
    for policy, rule in zip((other, spoiled), rules, strict=True):
        with pytest.raises(ValueError, match=f"cannot be written: {rule}"):
            gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), policy)


def test_a_file_that_is_there_stays(tmp_path):
    (tmp_path / "my.pt").write_text("mine")
    with pytest.raises(FileExistsError, match="my.pt is there already; overwrite=True replaces it"):
        gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), bq())
    assert (tmp_path / "my.pt").read_text() == "mine"


@pytest.mark.parametrize("size", [math.nan, math.inf, -1, 10**400, "0.3", True])
def test_a_step_size_that_no_search_takes_is_refused(size, tmp_path):
    with pytest.raises(ValueError, match="^step_size must be "):
        gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), bq(), step_size=size)
    assert not list(tmp_path.iterdir())


def test_a_step_size_in_a_checkpoint_is_a_number(tmp_path, monkeypatch):
    """And no text that the configuration would evaluate."""
    gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), bq(), step_size=0.3)
    content = checkpoint.load(tmp_path / "my.pt")
    content["config"]["search"]["step_size"] = "${oc.env:PATH}"
    checkpoint.save(tmp_path / "my.pt", content)
    line = refused(evaluate, "checkpoint=my.pt", f"instances={FILE}", "workers=0", "method=gumbeldore", cwd=tmp_path)
    assert "my.pt does not fit: search.step_size must be a number of at least 0 or null, got '${oc.env:PATH}'" in line


@pytest.mark.parametrize("path", [None, 3, b"my.pt"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="save_policy takes a path, a Problem and a Policy, in this order; got "):
        gumbeldore.save_policy(path, TSP(8), bq())


def test_only_a_file_is_replaced(tmp_path):
    """Not a device, a pipe, a folder, or a link to whatever; nor is anything written through a link."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    for name, target in (("device", "/dev/null"), ("link", "mine"), ("broken", "nowhere"), ("my.pt" + SUFFIX, "mine")):
        (tmp_path / name).symlink_to(target)
    for path in (tmp_path / name for name in ("folder", "pipe", "device", "link", "broken")):
        with pytest.raises(ValueError, match="is a link, a device or a folder, which save_policy does not replace"):
            gumbeldore.save_policy(path, TSP(8), bq(), overwrite=True)
    gumbeldore.save_policy(tmp_path / "my.pt", TSP(8), bq(), overwrite=True)  # beside what has its temporary name
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / "my.pt").is_file()
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink()
