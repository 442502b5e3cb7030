"""NaN and infinity: a bad step of training ends the run, a bad instance is named."""

from __future__ import annotations

import copy
import math

import pytest
import torch

import train
from gumbeldore import InstanceSet, SearchPool, methods, search
from gumbeldore.evaluation.solved_sets import solve_set
from gumbeldore.runtime.errors import InstanceError
from gumbeldore.seeding import generator
from gumbeldore.training import imitation
from gumbeldore.training.dataset import PseudoExperts, Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from gumbeldore.training.validation import validate
from models.bq_tsp import BQ
from problems.tsp import TSP
from problems.tsp.instances import Instance
from tests.helpers.commands import done, typed
from tests.helpers.learners import SIZES
from tests.helpers.ranks import Spoiled, together
from tests.helpers.runs import metrics_of
from tests.helpers.solutions import random_experts
from tests.helpers.trees import TablePolicy, TreeProblem

MATRICES = {"muon_learning_rate": 0.02}  # Muon, too


class Faulty(BQ):
    """A network that is NaN on all rows if one of them is not a number."""

    def forward(self, context, state):
        poison = torch.where(context.coords.isnan().any(), math.nan, 1.0)
        return super().forward(context._replace(coords=context.coords.nan_to_num()), state) * poison


class Draws(PseudoExperts):
    """The batches of a dataset, of which those in `bad` are spoiled."""

    bad: tuple[int, ...] = ()

    def batch(self, *arguments):
        self.drawn = getattr(self, "drawn", -1) + 1
        example = super().batch(*arguments)
        return spoiled(example) if self.drawn in self.bad else example


def spoiled(example):
    coords = example.instance.coords.clone()
    coords[-1] = math.nan
    return example._replace(instance=Instance(coords))


def new_learner(bad=(), folder=None, **sizes):
    settings = TrainSettings(**{**SIZES, "batches_per_epoch": 12, **MATRICES, **sizes})
    torch.manual_seed(0)
    policy = Faulty(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)
    dataset = Draws(folder)
    dataset.bad = bad
    dataset.add(Shard("epoch_1", *random_experts(10, 6)))
    return TrainState(policy, copy.deepcopy(policy), optimizer_of(policy, settings), dataset), settings


@pytest.mark.parametrize("bad", [(3,), (60,), (0, 3)])
def test_a_bad_step_ends_the_epoch_with_its_number(bad):
    train_state, settings = new_learner(bad, batches_per_epoch=70)
    with pytest.raises(ValueError, match=f"^step {bad[0] + 1} of epoch 1 cannot be learnt from: the loss is nan"):
        fit(TSP(6), train_state, settings, generator(5, "batches", 0))
    assert train_state.dataset.drawn < bad[0] + imitation.CHECK_EVERY  # not at the end of the epoch


def test_an_infinite_loss_with_a_finite_gradient_is_bad():
    """An expert's decision that the mask forbids: the derivative of its cross-entropy is softmax - 1, the loss inf."""

    class Forbids(TSP):
        def mask(self, instance, state):
            return super().mask(instance, state).index_fill(1, torch.tensor([3]), False)

    train_state, settings = new_learner()
    with pytest.raises(ValueError, match="the loss is inf"):
        fit(Forbids(6), train_state, settings, generator(5, "batches", 0))


def test_the_part_of_the_loss_that_is_not_finite_is_told(monkeypatch):
    monkeypatch.setattr(Faulty, "auxiliary_loss", lambda self, *_: torch.tensor(math.inf))
    train_state, settings = new_learner()
    train_state.policy.loss_weight = 1.0
    with pytest.raises(ValueError, match=r"the loss is \d\S*, the auxiliary loss inf, the norm of their gradient nan"):
        fit(TSP(6), train_state, settings, generator(5, "batches", 0))


@pytest.mark.slow
def test_processes_that_train_together_agree_on_bad_steps(tmp_path):
    """The bad row is the second process's; the first ends both with the cause."""
    train_state, settings = new_learner(folder=tmp_path, batches_per_epoch=6)
    problem = Spoiled(6)
    with pytest.raises(ValueError, match="step 3 of epoch 1 cannot be learnt from"), together(2) as (ranks, _):
        ranks.start_run(problem, train_state, settings, "float32", False)
        fit(problem, train_state, settings, generator(5, "batches", 0), Execution(ranks=ranks))


SMALL = ["debug=fast", "problem.num_nodes=6", "model.layers=1", "model.width=16", "precision=float32", "run_dir=run"]


def test_the_run_names_its_checkpoint_and_goes_on_once_the_fault_is_gone(tmp_path, monkeypatch):
    original, drawn = PseudoExperts.batch, []

    def batch(self, *arguments):
        drawn.append(None)
        example = original(self, *arguments)
        return spoiled(example) if len(drawn) == 6 else example

    with monkeypatch.context() as patch:
        patch.setattr(PseudoExperts, "batch", batch)
        result = typed(train, *SMALL, cwd=tmp_path)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert "step 2 of epoch 2 cannot be learnt from: the loss is nan" in result.stderr
    advice = "resume=run tries it again, init=run starts a run with other settings from its best policy"
    assert advice in result.stderr
    done(train, "resume=run", cwd=tmp_path)
    assert [line["epoch"] for line in metrics_of(tmp_path / "run")] == [1, 2]


@pytest.mark.parametrize("key", ["train.batch_size", "train.instances_per_epoch"])
def test_what_takes_too_much_memory_is_named(key, tmp_path):
    result = typed(train, *SMALL, f"{key}={10**15}", cwd=tmp_path)
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1 and f"lower {key} (" in result.stderr


# ---- instances


PROBLEM, POLICY = TreeProblem(), TablePolicy()
EVERY = [methods.Greedy(), methods.Sampling(3, 1), methods.WithoutReplacement(2, 2), methods.Gumbeldore(2, 2, 1.0)]


def trees(n=5):
    return PROBLEM.generate(n, torch.Generator().manual_seed(1))


def damaged(what, instance):
    """Trees of which one cannot be solved."""
    found = trees()
    if "logits" in what:
        found.logits[instance, 0] = float(what.split()[0])
    elif what == "mask":
        found.legal[instance, 1:] = False
    else:
        found.outcome[instance] = {"nan cost": math.nan, "infinite cost": -math.inf}[what]
    return found


WRONG = ["nan logits", "inf logits", "-inf logits", "mask", "nan cost", "infinite cost"]


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("config", EVERY, ids=["greedy", "sampling", "wor", "gumbeldore"])
def test_a_search_names_the_instance_it_cannot_solve(what, config):
    keys = torch.arange(100, 105)
    rule = "cost of a solution" if "cost" in what else "logits are NaN, .inf or all -inf .* mask"
    with pytest.raises(InstanceError, match=f"^instance 3 of the batch: .*{rule}") as caught:
        search(PROBLEM, POLICY, damaged(what, 3), config, keys=keys)
    assert (caught.value.index, caught.value.key) == (3, 103)


def instance_set(instances, factor=1.0):
    def true_cost(index, actions):
        return factor * PROBLEM.cost(type(instances)(*(field[index] for field in instances)), actions).double()

    unknown = torch.full((5,), math.nan, dtype=torch.float64)
    return InstanceSet([f"tree-{i}" for i in range(5)], instances, None, true_cost, unknown, [""] * 5)


def with_a_cost_that_is_no_number():
    whole = instance_set(trees())
    return whole._replace(true_cost=lambda i, a: whole.true_cost(i, a).masked_fill(i == 2, math.nan))


@pytest.mark.parametrize(
    ("instances", "rule", "method"),
    [
        *((instance_set(damaged(what, 3)), "tree-3: ", methods.Greedy()) for what in WRONG),
        (with_a_cost_that_is_no_number(), "tree-2: a solution costs nan", methods.WithoutReplacement(2, 1)),
    ],
    ids=[*WRONG, "a true cost"],
)
def test_an_evaluation_and_a_validation_name_the_instance(instances, rule, method):
    """In whatever chunk it comes."""
    pool = SearchPool(PROBLEM, POLICY, search_batch_rows=2)
    with pytest.raises(ValueError, match=f"^instance {rule}"):
        solve_set(pool, instances, method, seed=0)
    with pytest.raises(ValueError, match=f"^instance {rule}"):
        validate(pool, POLICY, [instances], lambda *_: None)
