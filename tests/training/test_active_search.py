"""Active search: what it keeps of given instances, when it ends, and that a continued one ends like one left alone."""

from __future__ import annotations

import copy
import csv
import json
import shutil

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import evaluate
import train
from gumbeldore import SearchPool, methods, search
from gumbeldore.batches import take
from gumbeldore.interfaces import without_references
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.stopping import Stopped, Stopper
from gumbeldore.seeding import fold
from gumbeldore.training.active_search import active_search
from gumbeldore.training.execution import Execution
from gumbeldore.training.incumbents import Incumbents, improve
from gumbeldore.training.settings import ActiveSearchSettings
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import ROOT, done, refused
from tests.helpers.learners import IMITATION, Reports, new_learner, same_weights
from tests.helpers.policies import FixedPolicy
from tests.helpers.runs import first_cards

SMALL = ["debug=fast", "train=active_search", "model.layers=1", "model.width=16", "model.feedforward=32"]
SMALL += ["precision=float32", "images_every=100", "train.epochs=4", "train.batches_per_epoch=20"]
SAMPLED = methods.Gumbeldore(4, 2, 0.3)


def given(*sizes):
    """Three random instances of each number of nodes."""
    found = []
    for nodes in sizes:
        problem = TSP(nodes)
        instances = problem.generate(3, torch.Generator().manual_seed(nodes))
        found.append(without_references(problem, instances, f"n{nodes}"))
    return found


def searched(instance_sets, state=None, stop=lambda: False, how=SAMPLED, **sizes):
    state, recorder = state or new_learner(), Reports()
    settings = ActiveSearchSettings(instances="given", **{**IMITATION, "learning_rate_end_factor": 1.0, **sizes})
    with SearchPool(TSP(8), state.policy, search_batch_rows=8) as pool:
        found = active_search(state, settings, how, pool, instance_sets, Execution(5, recorder, stop=stop))
    return found, state, recorder.all


def test_the_best_solutions_ever_are_kept_and_imitated():
    instance_sets = given(7, 9)
    first, (found, state, reports) = new_learner().policy, searched(instance_sets, epochs=6)
    for place, instance_set in enumerate(instance_sets):
        shard = state.dataset.shards[place]
        assert torch.equal(shard.actions, found.actions[place]) and torch.equal(shard.costs, found.costs[place])
        true = instance_set.true_cost(torch.arange(3), found.actions[place])
        assert torch.equal(true, found.costs[place])
    assert len(state.dataset) == 6 and len(state.dataset.shards) == 2  # bounded: one expert for each instance
    assert not same_weights(first, state.policy)
    means = [report.metrics["quality/best_cost"] for report in reports]
    assert means == sorted(means, reverse=True) and means[-1] < means[0]
    assert [report.improved for report in reports] == [report.metrics["sampling/new_best"] > 0 for report in reports]
    assert found.quality().cost == means[-1] == state.best_cost


def test_of_equal_solutions_the_choice_does_not_depend_on_who_was_faster():
    """Makespans are whole numbers, so many schedules are equally long."""
    problem = JSSP(sizes=[[2, 3]], validation_sizes=[[2, 3]])
    instances = problem.generate(40, torch.Generator().manual_seed(0))
    found = []
    for backwards in (False, True):
        with SearchPool(problem, FixedPolicy(problem), search_batch_rows=8) as pool:
            if backwards:
                pool.map_all = lambda *given, ordered=pool.map_all, **more: reversed(list(ordered(*given, **more)))
            incumbents = Incumbents.of(problem, [without_references(problem, instances, "x")], [])
            improve(incumbents, methods.WithoutReplacement(20, 1), pool, 0, Execution())
        found.append(incumbents)
    assert torch.equal(found[0].costs[0], found[1].costs[0])
    assert torch.equal(found[0].actions[0], found[1].actions[0])


def test_an_epoch_samples_with_the_policy_that_is_being_trained():
    """The first with the first weights; the second not with the best so far, which has the weights of the first."""
    (instance_set,), state = given(8), new_learner()
    policies = [copy.deepcopy(state.policy)]
    searched([instance_set], state, epochs=1)
    policies.append(copy.deepcopy(state.policy))
    assert not same_weights(*policies)
    state.best.load_state_dict(policies[0].state_dict())
    found, *_ = searched([instance_set], state, epochs=2)
    best = torch.full((3,), torch.inf, dtype=torch.float64)
    for epoch, policy in enumerate(policies):
        keys = fold(5, "sampling", epoch, torch.arange(3))
        for how in (SAMPLED, methods.Greedy()):
            best = best.minimum(search(TSP(8), policy, instance_set.instances, how, keys=keys).best()[1].double())
    assert torch.allclose(found.costs[0], best)


def test_the_solutions_are_judged_by_their_true_cost():
    """Here the true cost is 100 less the length: the longest tours are the best."""
    (instance_set,) = given(8)
    problem = TSP(8)

    def true_cost(index, actions):
        return 100 - problem.cost(take(instance_set.instances, index), actions).double()

    found, *_ = searched([instance_set._replace(true_cost=true_cost)], epochs=1)
    others, *_ = searched([instance_set], epochs=1)
    assert (100 - found.costs[0] > others.costs[0]).all()


def test_it_ends_after_some_epochs_without_a_better_solution():
    """Of five nodes there are twelve tours: the eight samples of an epoch soon find the best."""
    found, state, reports = searched(given(5), epochs=50, patience=3)
    improved = [report.improved for report in reports]
    assert len(improved) < 50 and improved[-3:] == [False] * 3 and improved[-4] and state.since_best == 3


def test_what_was_found_before_a_stop_is_kept():
    """The stop comes after the first size has been searched: in the middle of the sampling of an epoch."""
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 3  # one at the epoch's beginning, then one before each chunk

    found, state, reports = searched(given(7, 9), stop=stop)
    assert not reports and state.epoch == 0
    again = Incumbents.of(TSP(8), found.instance_sets, state.dataset.shards)  # of a run that goes on
    assert all(torch.equal(a, b) for a, b in zip(again.costs, found.costs, strict=True))
    assert found.costs[0].isfinite().all() and found.costs[1].isinf().all()
    assert state.totals["seconds"] > 0 and state.totals["batches"] == 0  # what it took is counted
    assert state.totals["solutions"] > 0 and state.totals["evaluations"] > 0


def test_an_epoch_that_is_stopped_at_once_has_found_nothing():
    state = new_learner()
    with SearchPool(TSP(8), state.policy) as pool:
        incumbents = Incumbents.of(TSP(8), given(7), [])
        with pytest.raises(Stopped) as stopped:
            improve(incumbents, SAMPLED, pool, 0, Execution(stop=lambda: True))
    metrics = stopped.value.metrics
    assert metrics["sampling/solutions"] == metrics["sampling/evaluations"] == 0


def test_other_instances_than_those_of_the_run_are_refused():
    _, state, _ = searched(given(7, 9), epochs=1)
    for others in (given(7), given(7, 8), given(9, 7)):
        with pytest.raises(ValueError, match="the instances are not those with which the run began"):
            searched(others, state, epochs=2)


# ---- as a command


def run(folder, *words):
    return done(train, *SMALL, *words, cwd=folder).stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Instances of two sizes."""
    folder = tmp_path_factory.mktemp("files")
    for name in ("berlin52", "ulysses16"):
        shutil.copy(ROOT / "tests/data" / f"{name}.tsp", folder)
    return folder


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    text = run(folder, f"train.instances={files}", "run_dir=whole")
    return folder / "whole", text


def test_the_solutions_are_written_as_an_evaluation_writes_them(files, whole):
    folder, text = whole
    rows = [*csv.DictReader((folder / "results/results.csv").open())]
    assert sorted(row["instance"] for row in rows) == ["berlin52", "ulysses16"]
    assert {row["method"] for row in rows} == {"active search"}
    content = json.loads((folder / "results/results.json").read_text())["methods"]["active search"]
    assert content["num_instances"] == 2 and content["solutions"] == 2 * 4 * 9  # 8 and the greedy one in each epoch
    assert content["evaluations"] > 0 and content["seconds"] > 0
    assert "mean cost of the best solutions" in text and "better solutions" in text
    done(evaluate, f"checkpoint={folder}", f"instances={files}", "workers=0", "out_dir=e", cwd=folder)
    assert (folder / "results/solutions").exists() and (folder / "results/report.html").exists()
    names = {p.name for p in (folder / "e").iterdir()}
    assert {p.name for p in (folder / "results").iterdir()} == names - {"progress"}


def test_the_results_say_what_was_minimised_and_on_which_machine(tmp_path):
    (tmp_path / "shop.txt").write_text("2 2\n0 3 1 4\n1 2 0 5\n")
    words = ["problem=jssp", "problem.objective=total_flow_time", "debug=fast", "train=active_search", "train.epochs=1"]
    words += ["precision=float32", "workers=0", "train.batches_per_epoch=1", "train.instances=shop.txt", "run_dir=run"]
    text = done(train, *words, cwd=tmp_path).stdout
    content = json.loads((tmp_path / "run/results/results.json").read_text())
    assert content["objective"] == "total_flow_time" and "objective: total_flow_time" in text
    assert content["hardware"].endswith(", float32, no workers")


def test_the_first_cards_tell_whether_it_goes_well(whole):
    tags = EventAccumulator(str(whole[0])).Reload().Tags()["scalars"]
    assert first_cards(tags) == {"best_cost", "best_gap", "new_best", "loss", "epoch_seconds"}


def assert_same(run, other):
    ours, theirs = (checkpoint.load(x / "checkpoints/last.pt") for x in (run, other))
    for part in ("policy", "optimizer"):
        torch.testing.assert_close(ours["train_state"][part], theirs["train_state"][part], rtol=0, atol=0)
    for key in ("best_cost", "best_gap", "since_best", "dataset"):
        assert ours["train_state"][key] == theirs["train_state"][key]
    tables = [(x / "results/results.csv").read_text() for x in (run, other)]
    assert tables[0] == tables[1]


@pytest.mark.slow
def test_a_run_stopped_in_an_epoch_keeps_what_it_has_found_and_ends_like_one_left_alone(
    files, whole, tmp_path, monkeypatch
):
    """Stopped in the middle of its second epoch's training, with solutions of which no complete epoch knows."""
    folder, _ = whole
    stops = iter([*[False] * 40, *[True] * 9])
    with monkeypatch.context() as patch:
        patch.setattr(Stopper, "__call__", lambda self: next(stops))
        run(tmp_path, f"train.instances={files}", "run_dir=cut")
    saved = checkpoint.load(tmp_path / "cut/checkpoints/last.pt")
    assert saved["epoch"] == 1 and saved["train_state"]["dataset"] == ["epoch_000002_000", "epoch_000002_001"]
    names = sorted(path.stem for path in (tmp_path / "cut/dataset").iterdir())
    assert names == saved["train_state"]["dataset"]
    done(train, "resume=cut", cwd=tmp_path)
    assert_same(tmp_path / "cut", folder)


@pytest.mark.slow
def test_files_are_found_from_every_folder_and_refused_if_they_have_changed(files, tmp_path):
    shutil.copytree(files, tmp_path / "files")
    run(tmp_path, "train.instances=files", "train.epochs=1", "run_dir=cut")
    (tmp_path / "elsewhere").mkdir()
    done(train, "resume=../cut", "train.epochs=2", cwd=tmp_path / "elsewhere")
    (tmp_path / "files/ulysses16.tsp").unlink()
    line = refused(train, "resume=cut", "train.epochs=3", cwd=tmp_path)
    assert "the instances are not those with which the run began" in line
