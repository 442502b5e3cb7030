"""The experts of an epoch: the best of the sampled solutions, what is measured of them, how they are kept and drawn."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from gumbeldore import SearchPool, methods, search
from gumbeldore.batches import take
from gumbeldore.runtime import checkpoint
from gumbeldore.sampler.solutions import SearchStats, Solutions
from gumbeldore.training import experts
from gumbeldore.training.dataset import Example, PseudoExperts, Shard
from gumbeldore.training.experts import best_of, sample_experts
from gumbeldore.training.imitation import fit
from gumbeldore.training.optimizer import optimizer_of
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.state import TrainState
from models.bq_tsp import BQ
from problems.tsp import TSP, Instance
from tests.helpers.learners import SIZES, new_learner, reports_of
from tests.helpers.solutions import random_experts
from tests.helpers.trees import ACTIONS, TablePolicy, TreeProblem


def test_the_best_of_some_solutions_by_hand():
    """The first and the third are the same; the last, which would be the best, is none."""
    actions = torch.tensor([[[1, 2], [2, 1], [1, 2], [3, 1]]])
    costs, valid = torch.tensor([[5.0, 3.0, 5.0, 1.0]]).double(), torch.tensor([[True, True, True, False]])
    zeros = torch.zeros(1, 4).double()
    stats = SearchStats(7, 0, 0, 0, 0, 1, False)
    found = best_of(Solutions(actions, costs, zeros, zeros, zeros, valid, zeros.long(), stats))
    assert found.actions.tolist() == [[2, 1]] and found.costs.tolist() == [3.0] and found.cost_sum.tolist() == [13.0]
    assert (found.samples.tolist(), found.distinct.tolist(), found.evaluations) == ([3], [2], 7)


@pytest.mark.parametrize(
    "config", [methods.Sampling(8, 1), methods.WithoutReplacement(4, 3)], ids=["repeated", "exhausted"]
)
@pytest.mark.parametrize("lowest", [10.0, -10.0, 1.0], ids=["costs above 0", "below 0", "of any sign"])
def test_experts_and_their_metrics_are_those_of_the_solutions(config, lowest):
    """In chunks; by plain loops over the solutions of one search for all instances."""
    problem, policy, keys = TreeProblem(), TablePolicy(), torch.arange(6)
    trees = problem.generate(6, torch.Generator().manual_seed(0))
    trees = trees._replace(outcome=trees.outcome - lowest)
    found, metrics = sample_experts(SearchPool(problem, policy, search_batch_rows=16), trees, keys, config)
    sampled, greedy = (search(problem, policy, trees, how, keys=keys) for how in (config, methods.Greedy()))
    actions, costs = [], []
    for row in range(6):
        actions.append([tuple(x) for x in sampled.actions[row][sampled.valid[row]].tolist()])
        costs.append(sampled.costs[row][sampled.valid[row]].tolist())
    best, alone = list(map(min, costs)), greedy.costs[:, 0].tolist()
    expert = [problem.cost(take(trees, slice(i, i + 1)), found.actions[i : i + 1]).item() for i in range(6)]
    assert expert == found.costs.tolist() == best

    count = sum(map(len, costs))
    expected = {
        "best_cost": sum(best) / 6,
        "mean_cost": sum(map(sum, costs)) / count,
        "greedy_cost": sum(alone) / 6,
        "improved_share": sum(x < y for x, y in zip(best, alone, strict=True)) / 6,
        "distinct_share": sum(len(set(row)) for row in actions) / count,
        "solutions": count,
        "evaluations": sampled.stats.evaluations + greedy.stats.evaluations,
    }
    if abs(lowest) == 10:
        expected["improvement_over_greedy"] = (1 - sum(best) / sum(alone)) * (1 if lowest > 0 else -1)
    assert metrics.pop("sampling/solutions_per_second") > 0
    assert metrics == pytest.approx({f"sampling/{name}": value for name, value in expected.items()})


def test_the_nucleus_comes_after_some_epochs(monkeypatch):
    seen, sample = [], experts.sample_experts

    def sample_and_tell(pool, instances, keys, search, *rest):
        seen.append((search.top_p_start, search.top_p_end))
        return sample(pool, instances, keys, search, *rest)

    monkeypatch.setattr(experts, "sample_experts", sample_and_tell)
    state, nucleus = new_learner(), methods.Gumbeldore(4, 2, 0.3, top_p_start=0.5, top_p_end=0.75)
    reports_of(state, SearchPool(TSP(7), state.policy), nucleus, nucleus_after=2, epochs=4, batches_per_epoch=1)
    assert seen == [(1.0, 1.0)] * 2 + [(0.5, 0.75)] * 2


def test_the_accuracy_is_the_share_of_the_decisions_that_are_the_most_probable():
    """All four decisions of the first batch are, and three of the second."""

    class Sharpened(TablePolicy):
        def __init__(self):
            super().__init__()
            self.sharpness = nn.Parameter(torch.ones(()))

        def forward(self, context, state):
            return self.sharpness * super().forward(context, state)

    problem, policy = TreeProblem(), Sharpened()
    trees = problem.generate(4, torch.Generator().manual_seed(0), branching=1.0)
    root = problem.reset(trees)
    probable = trees.logits[:, 0].argmax(dim=1)
    other = torch.where(torch.arange(4) == 2, (probable + 1) % ACTIONS, probable)
    batches = iter([probable, other])
    settings = TrainSettings(**{**SIZES, "batches_per_epoch": 2, "batch_size": 4})
    state = TrainState(policy, copy.deepcopy(policy), optimizer_of(policy, settings), PseudoExperts())
    state.dataset.batch = lambda *_: Example(trees, root, next(batches)[:, None])
    metrics = fit(problem, state, settings, torch.Generator())
    assert metrics["training/accuracy"] == 0.875 and math.isfinite(metrics["training/loss"])


@pytest.mark.parametrize("weight", [0.0, 0.25])
def test_the_auxiliary_loss_is_recorded_where_the_network_has_one(weight, monkeypatch):
    monkeypatch.setattr(BQ, "auxiliary_loss", lambda *_: torch.tensor(3.0))
    state = new_learner()
    state.policy.loss_weight = weight
    state.dataset.add(Shard("epoch_1", *random_experts(10, 7)))
    metrics = fit(TSP(7), state, TrainSettings(**{**SIZES, "batches_per_epoch": 2}), torch.Generator())
    assert metrics.get("training/auxiliary_loss") == (3 * weight or None)


# ---- in memory and in files


def test_dataset_appends_restores_and_prunes(tmp_path):
    dataset = PseudoExperts(tmp_path)
    for epoch in range(4):
        if epoch == 2:
            dataset.clear()
        dataset.add(Shard(f"epoch_{epoch}", *random_experts(10, 6, epoch)))
    assert len(dataset) == 20 and [shard.name for shard in dataset.shards] == ["epoch_2", "epoch_3"]
    assert len(list(tmp_path.iterdir())) == 4  # forgotten ones are still there ...
    (tmp_path / "epoch_9.npz.gumbeldore-tmp").write_bytes(b"torn")
    for name in ("notes.txt", "mine.npz", "epoch_1.npz.bak"):
        (tmp_path / name).touch()
    (tmp_path / ".ipynb_checkpoints").mkdir()
    dataset.prune()
    mine = {".ipynb_checkpoints", "notes.txt", "mine.npz", "epoch_1.npz.bak"}  # the user's stay
    assert {path.name for path in tmp_path.iterdir()} == mine | {"epoch_2.npz", "epoch_3.npz"}  # ... until now

    again = PseudoExperts(tmp_path)
    again.restore(["epoch_2", "epoch_3"], Instance)
    draws = [d.batch(TSP(6), 64, torch.Generator().manual_seed(1)) for d in (dataset, again)]
    assert torch.equal(draws[0].remaining_actions, draws[1].remaining_actions)
    assert torch.equal(draws[0].instance.coords, draws[1].instance.coords)
    with pytest.raises(ValueError, match="there is no file .*epoch_1.npz"):
        again.restore(["epoch_1"], Instance)


CHANGED = {  # arrays of a shard, each as another one has it
    "other solutions": ("actions", lambda x: x.flip(0)),
    "actions of no node": ("actions", lambda x: x + 50),
    "actions as floats": ("actions", lambda x: x.double()),
    "other costs": ("costs", lambda x: x * 0 + 1e-9),
    "no costs": ("costs", lambda x: x * math.nan),
    "one solution fewer": ("costs", lambda x: x[1:]),
    "other nodes": ("instance.coords", lambda x: x.flip(1)),
    "one node fewer": ("instance.coords", lambda x: x[:, :-1]),
    "another shape": ("instance.coords", lambda x: x.flatten(1)),
    "an array more": ("instance.more", lambda x: torch.ones(3)),
    "an array of another name": ("instance.coord", lambda x: torch.ones(3)),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_shard_that_the_run_has_not_written_is_refused(case, tmp_path):
    name, change = CHANGED[case]
    dataset, path = PseudoExperts(tmp_path), tmp_path / "epoch_1.npz"
    dataset.add(Shard("epoch_1", *random_experts(10, 6)))
    saved = dataset.state_dict()
    PseudoExperts(tmp_path).restore(saved["dataset"], Instance, saved["checksums"])
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed[name] = change(torch.from_numpy(changed.get(name, changed["costs"]))).numpy()
    np.savez(path, **changed)
    with pytest.raises(ValueError, match=rf"^{path} is damaged .*: it is not the one that the run wrote"):
        PseudoExperts(tmp_path).restore(saved["dataset"], Instance, saved["checksums"])


def test_the_checksum_of_a_shard_stays_through_a_checkpoint_and_one_of_another_run_differs(tmp_path):
    states = [new_learner(tmp_path / str(seed)) for seed in (0, 1)]
    for seed, state in enumerate(states):
        state.dataset.add(Shard("epoch_1", *random_experts(10, 7, seed)))
    checkpoint.save(
        tmp_path / "last.pt",
        {"train_state": states[0].state_dict(), "config": {"a": 1}, "weights": {"a": torch.ones(1)}},
    )
    saved = checkpoint.load(tmp_path / "last.pt")["train_state"]
    again = new_learner(tmp_path / "0")
    again.load_state_dict(saved, again.best.state_dict(), Instance)
    assert again.dataset.state_dict() == states[0].dataset.state_dict()
    (tmp_path / "1/epoch_1.npz").replace(tmp_path / "0/epoch_1.npz")
    with pytest.raises(ValueError, match="it is not the one that the run wrote"):
        new_learner(tmp_path / "0").load_state_dict(saved, again.best.state_dict(), Instance)
    del saved["checksums"]  # as an older version has saved it
    older = new_learner(tmp_path / "0")
    older.load_state_dict(saved, again.best.state_dict(), Instance)
    assert older.dataset.state_dict() == states[1].dataset.state_dict()  # known from now on


def key(*path, value):
    def change(saved):
        for name in path[:-1]:
            saved = saved[name]
        saved[path[-1]] = value

    return change


OTHER_TYPES = {  # in the place of what a checkpoint of a training holds
    "epoch": key("epoch", value="3"),
    "a negative epoch": key("epoch", value=-1),
    "since_best": key("since_best", value=[1]),
    "best_cost": key("best_cost", value="low"),
    "best_gap": key("best_gap", value=None),
    "totals": key("totals", value=[3]),
    "seconds": key("totals", "seconds", value="long"),
    "policy": key("policy", value=[]),
    "a weight": key("policy", "embed.weight", value="x"),
    "dataset": key("dataset", value=7),
    "a shard": key("dataset", value=[["epoch_1"]]),
    "checksums": key("checksums", value=["a"]),
    "optimizer": key("optimizer", value={"a": 1}),
    "groups": key("optimizer", 0, "param_groups", value=3),
    "a rate": key("optimizer", 0, "param_groups", 0, "lr", value="high"),
    "the first rate": key("optimizer", 0, "param_groups", 0, "initial_lr", value="high"),
    "a state": key("optimizer", 0, "state", 0, value=3),
    "a step": key("optimizer", 0, "state", 0, "step", value="x"),
    "an average": key("optimizer", 0, "state", 0, "exp_avg", value=torch.ones(2, 2, 2)),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_another_type_in_a_checkpoint_is_refused_before_it_is_used(case, tmp_path):
    state = new_learner(tmp_path)
    state.dataset.add(Shard("epoch_1", *random_experts(10, 7)))
    fit(TSP(7), state, TrainSettings(**{**SIZES, "batches_per_epoch": 2}), torch.Generator())
    saved = copy.deepcopy(state.state_dict())
    again = new_learner(tmp_path)
    again.load_state_dict(copy.deepcopy(saved), again.best.state_dict(), Instance)
    OTHER_TYPES[case](saved)
    with (
        pytest.raises(ValueError, match="^last.pt does not fit: ") as error,
        checkpoint.checkpoint_errors("last.pt"),
    ):
        new_learner(tmp_path).load_state_dict(saved, again.best.state_dict(), Instance)
    assert "\n" not in str(error.value)


def test_batches_hold_one_size_and_every_step():
    dataset, problem = PseudoExperts(), TSP(6)
    dataset.add(Shard("small", *random_experts(10, 6)))
    dataset.add(Shard("large", *random_experts(30, 9)))
    dataset.add(Shard("more small", *random_experts(10, 6, 2)))
    draws = torch.Generator().manual_seed(0)
    seen = {6: set(), 9: set()}
    for _ in range(300):
        example = dataset.batch(problem, 4, draws)
        seen[example.instance.coords.shape[1]].add(example.state.remaining.shape[1])
        assert problem.mask(example.instance, example.state).gather(1, example.remaining_actions[:, :1]).all()
    assert seen == {6: {2, 3, 4, 5}, 9: {2, 3, 4, 5, 6, 7, 8}}  # from two remaining nodes up
    with pytest.raises(ValueError, match="no pseudo-experts"):
        PseudoExperts().batch(problem, 4, draws)
