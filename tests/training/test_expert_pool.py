"""A pool of experts: whose turn it is, what a search begins from, and that a continued run ends like one left alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import train
from gumbeldore import SearchPool, methods, search
from gumbeldore.batches import batch_size
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.stopping import Stopped
from gumbeldore.seeding import fold
from gumbeldore.training import expert_pool
from gumbeldore.training.dataset import Shard
from gumbeldore.training.execution import Execution
from gumbeldore.training.expert_pool import sample_kept_instances
from gumbeldore.training.given_experts import in_turns, read_experts
from gumbeldore.training.settings import TrainSettings
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import done
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.learners import SIZES, new_learner, reports_of
from tests.helpers.runs import check_same, first_cards, metrics_of

SAMPLED, RECONSTRUCTED = methods.WithoutReplacement(4, 1), methods.Reconstruct(methods.Greedy(), 2)


def shards_after(epochs, state=None, how=SAMPLED, problem=None, stop=lambda: False, **sizes):
    """The dataset after each of so many epochs of sampling alone."""
    state, problem, found = state or new_learner(), problem or TSP(7), []
    settings = TrainSettings(**{**SIZES, "pool": 6, "instances_per_epoch": 2, **sizes})
    with SearchPool(problem, state.policy, search_batch_rows=8) as pool:
        for _ in range(epochs):
            shard, _ = sample_kept_instances(state, settings, how, pool, Execution(5, stop=stop))
            state.dataset.add(shard)
            state.epoch += 1
            found.append(list(state.dataset.shards))
    return found


def same_instances(one, other):
    return torch.equal(one.instances.coords, other.instances.coords)


def test_new_instances_fill_the_pool_then_those_searched_longest_ago_have_their_turn():
    filled = shards_after(9, pool=7)
    assert [sum(len(each.actions) for each in shards) for shards in filled] == [2, 4, 6, 7, 7, 7, 7, 7, 7]
    first = filled[3]
    assert not any(same_instances(a, b) for i, a in enumerate(first) for b in first[:i])
    for turn, shards in enumerate(filled[4:]):
        for place, shard in enumerate(shards):
            assert same_instances(shard, first[(turn + 1 + place) % 4])
    assert len({shard.name for shards in filled for shard in shards}) == 9  # no file is written twice


@pytest.mark.parametrize("how", [SAMPLED, RECONSTRUCTED])
def test_a_solution_is_replaced_by_a_better_one_alone(how):
    filled = shards_after(7, how=how)
    for before, after in zip(filled[2:], filled[3:], strict=False):
        old, new = before[0], after[-1]
        better = new.costs < old.costs
        assert torch.equal(new.costs[~better], old.costs[~better])
        assert torch.equal(new.actions[~better], old.actions[~better])
        assert torch.equal(TSP(7).cost(new.instances, new.actions).double(), new.costs)
    assert sum(each.costs.sum() for each in filled[-1]) < sum(each.costs.sum() for each in filled[2])


def test_reconstruction_goes_on_from_the_solution_that_an_instance_has():
    state, problem, how = new_learner(), TSP(20), methods.Reconstruct(methods.Greedy(), 6)
    filled = shards_after(4, state, how, problem)
    old, new = filled[2][0], filled[3][-1]
    keys = fold(5, "sampling", 3, torch.arange(2))
    with torch.no_grad():
        found, anew = (
            search(problem, state.policy, old.instances, how, keys=keys, start=start).best()
            for start in (old.actions, None)
        )
    assert torch.equal(new.actions, found[0]) and torch.equal(new.costs, found[1])
    assert (found[1] < old.costs.minimum(anew[1])).any()


def test_the_best_policy_searches_or_the_one_that_is_trained():
    for with_best in (True, False):
        state = new_learner()
        (state.policy if with_best else state.best).load_state_dict(
            {name: torch.zeros_like(value) for name, value in state.best.state_dict().items()}
        )
        ((searched,),) = shards_after(1, state, sample_with_best=with_best)
        ((expected,),) = shards_after(1)
        assert torch.equal(searched.actions, expected.actions)


def with_given(count, problem):
    """A learner whose pool begins with so many plain tours, and these."""
    state, instances = new_learner(), problem.generate(count, torch.Generator().manual_seed(0))
    actions = torch.arange(1, problem.num_nodes).repeat(count, 1)
    given = Shard("epoch_000001", instances, actions, problem.cost(instances, actions))
    for shard in in_turns([given], 2):
        state.dataset.add(shard)
    return state, given


def test_a_pool_begins_with_given_experts_and_grows():
    state, given = with_given(5, TSP(6))
    filled = shards_after(7, state, pool=8)
    assert [sum(len(each.actions) for each in shards) for shards in filled] == [7, 8, 8, 8, 8, 8, 8]
    names = [[each.name[:5] for each in shards] for shards in filled]
    assert names[1] == ["given"] * 3 + ["epoch"] * 2 and names[4] == ["epoch"] * 5
    kept = torch.cat([each.instances.coords for each in filled[4][2:]])
    assert torch.equal(kept, given.instances.coords)
    assert (torch.cat([each.costs for each in filled[4][2:]]) <= given.costs).all()
    assert len({each.name for each in filled[4]}) == 5


def test_more_given_experts_than_the_pool_asks_for_all_stay():
    state, _ = with_given(9, TSP(7))
    filled = shards_after(3, state, pool=6)
    assert [sum(len(each.actions) for each in shards) for shards in filled] == [9, 9, 9]


def test_instances_are_full_sized_from_the_start_and_of_all_sizes():
    (shards,) = shards_after(1, problem=TSP(7, grow=[4, 1.0]))
    assert shards[0].actions.shape[1] == 6
    sizes, problem = set(), JSSP(sizes=[[2, 3], [3, 2]], validation_sizes=[[2, 3]])
    settings = TrainSettings(**{**SIZES, "pool": 4, "instances_per_epoch": 2})
    for epoch in range(8):
        sizes.add(expert_pool.training_instances(problem, settings, 0, epoch).times.shape[1:])
    assert sizes == {(2, 3), (3, 2)}


def test_a_stopped_search_leaves_the_pool_as_it_is():
    state = new_learner()
    before = shards_after(4, state)[-1]
    with pytest.raises(Stopped):
        shards_after(1, state, stop=lambda: True)
    assert all(a is b for a, b in zip(before, state.dataset.shards, strict=True))


def test_nothing_is_forgotten_when_the_policy_improves():
    state, sizes = new_learner(), {"epochs": 5, "pool": 20, "batches_per_epoch": 60, "learning_rate": 5e-3}
    how = methods.made(methods.Reconstruct, {"start": "wor", "iterations": 2, "beam_width": 4})
    with SearchPool(TSP(7), state.policy, 0, 12) as pool:
        metrics = [report.metrics for report in reports_of(state, pool, how, **sizes)]
    assert state.best_cost < metrics[0]["quality/greedy_cost"]  # it has improved
    assert [each["training/dataset_size"] for each in metrics] == [10, 20, 20, 20, 20] and len(state.dataset) == 20
    costs = torch.cat([shard.costs for shard in state.dataset.shards])
    assert metrics[-1]["quality/best_cost"] == costs.mean().item()
    means = [each["quality/best_cost"] for each in metrics[1:]]
    assert means == sorted(means, reverse=True) and means[-1] < means[0]
    assert metrics[0]["sampling/new_best"] == 10 > metrics[-1]["sampling/new_best"]


# ---- as a command

SMALL = ["debug=fast", "problem.num_nodes=8", "problem.grow=null", "model.layers=1", "model.width=16"]
SMALL += ["model.feedforward=32", "precision=float32", "images_every=100", "train.epochs=4"]
POOL = ["train.pool=16", "method=reconstruct", "search.iterations=2"]


def run(folder, *words):
    return done(train, *words, cwd=folder).stdout


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder / "whole", run(folder, *SMALL, *POOL, "run_dir=whole")


def test_a_run_that_was_killed_ends_like_one_left_alone(whole, tmp_path, monkeypatch):
    """In the middle of its fourth epoch, whose experts are of instances that earlier ones have searched."""
    with monkeypatch.context() as patch:
        dies_after(patch, 3 * 4 + 2)
        with pytest.raises(Killed):
            run(tmp_path, *SMALL, *POOL, "run_dir=died")
    assert len(metrics_of(tmp_path / "died")) == 3
    run(tmp_path, "resume=died")
    check_same(whole[0], tmp_path / "died")
    for file in (whole[0] / "dataset").iterdir():
        with np.load(file) as ours, np.load(tmp_path / "died/dataset" / file.name) as theirs:
            assert all((ours[key] == theirs[key]).all() for key in ours.files)


def test_its_folder_holds_experts_for_supervised_training_and_for_a_larger_pool(whole, tmp_path):
    folder, text = whole
    assert "better solutions" in text and "greedy " in text
    shards = read_experts(folder / "dataset", TSP(8), TSP(8).generate(1, torch.Generator()))
    assert [shard.name for shard in shards] == checkpoint.load(folder / "checkpoints/last.pt")["train_state"]["dataset"]
    assert sum(batch_size(shard.instances) for shard in shards) == 16
    experts = f"train.experts={folder / 'dataset'}"
    run(tmp_path, *SMALL, "train=supervised", experts, "run_dir=supervised")
    assert metrics_of(tmp_path / "supervised")[-1]["training/dataset_size"] == 16
    run(tmp_path, *SMALL, *POOL, experts, "train.pool=30", "run_dir=larger")
    lines = metrics_of(tmp_path / "larger")
    assert [line["training/dataset_size"] for line in lines] == [24, 30, 30, 30]


def test_the_first_cards_tell_whether_it_goes_well(whole):
    tags = EventAccumulator(str(whole[0])).Reload().Tags()["scalars"]
    assert first_cards(tags) - {"greedy_gap"} == {"greedy_cost", "best_cost", "new_best", "loss", "epoch_seconds"}
