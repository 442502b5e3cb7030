"""Supervised training: imitating solutions of a file, which nothing is added to and nothing is taken from."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

import train
from gumbeldore.batches import take
from gumbeldore.runtime import checkpoint
from gumbeldore.testing import random_solution
from gumbeldore.training.dataset import PseudoExperts, Shard
from gumbeldore.training.given_experts import read_experts
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import done, refused
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.runs import metrics_of, same_runs

NETWORK = ["model.width=16", "model.heads=2", "model.feedforward=32", "precision=float32"]
WORDS = {
    "tsp": ["problem=tsp", "problem.num_nodes=6", "model.layers=1"],
    "cvrp": ["problem=cvrp", "problem.num_customers=5", "problem.capacity=[12,20]", "model.layers=1"],
    "jssp": ["problem=jssp", "problem.sizes=[[3,2]]", "problem.validation_sizes=[[3,2]]", "model.blocks=1"],
}
PROBLEMS = {"tsp": TSP(6), "cvrp": CVRP(5, [12, 20]), "jssp": JSSP([[3, 2]], [[3, 2]], reversal=True)}


def experts(folder, name, file="experts", problem=None, n=40):
    """A file of random instances, each with the best of 200 random solutions."""
    problem = problem or PROBLEMS[name]
    draws = torch.Generator().manual_seed(1)
    instances = problem.generate(n, draws)
    repeated = take(instances, torch.arange(n).repeat_interleave(200))
    found = random_solution(problem, repeated, draws)
    best = problem.cost(repeated, found).view(n, 200).argmin(dim=1)
    actions = found.view(n, 200, -1)[torch.arange(n), best]
    PseudoExperts(folder).add(Shard(file, instances, actions, problem.cost(instances, actions)))
    return folder / f"{file}.npz"


def supervised(name, source, run_dir="run"):
    small = ["debug=fast", "train.epochs=3", "train.batches_per_epoch=30", "train.batch_size=64", "images_every=100"]
    return [*WORDS[name], *small, "train=supervised", f"train.experts={source}", *NETWORK, f"run_dir={run_dir}"]


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow) if x == "cvrp" else x for x in WORDS])
def test_given_solutions_are_learnt_and_nothing_is_sampled(name, tmp_path, monkeypatch):
    monkeypatch.setattr(train, "sample_new_instances", None)  # calling it would fail
    source = experts(tmp_path, name)
    done(train, *supervised(name, source), cwd=tmp_path)
    lines = metrics_of(tmp_path / "run")
    first, *_, last = lines
    assert len(lines) == 3 and last["training/loss"] < 0.95 * first["training/loss"]
    assert not any(key.startswith("sampling/") for line in lines for key in line)
    assert all(line["usage/totals/solutions"] == 0 and line["training/dataset_size"] == 40 for line in lines)

    kept = list((tmp_path / "run" / "dataset").iterdir())
    assert [path.name for path in kept] == ["experts.npz"]
    with np.load(source) as given, np.load(kept[0]) as copied:
        assert set(given.files) == set(copied.files)
        assert all((given[key] == copied[key]).all() for key in given.files)


@pytest.mark.parametrize(
    "batches", [pytest.param(10, id="in the first epoch", marks=pytest.mark.slow), pytest.param(75, id="in the third")]
)
def test_a_run_that_died_continues_exactly_without_the_file(batches, tmp_path, monkeypatch):
    source = experts(tmp_path, "tsp")
    done(train, *supervised("tsp", source, "whole"), cwd=tmp_path)
    with monkeypatch.context() as patch:
        dies_after(patch, batches)
        with pytest.raises(Killed):
            done(train, *supervised("tsp", source, "died"), cwd=tmp_path)
    assert len(metrics_of(tmp_path / "died")) == batches // 30
    source.unlink()
    done(train, "resume=died", cwd=tmp_path)
    same_runs(tmp_path / "whole", tmp_path / "died", epochs=3)
    last = checkpoint.load(tmp_path / "died" / "checkpoints" / "last.pt")["train_state"]
    assert last["dataset"] == ["experts"] and last["totals"]["solutions"] == 0


def test_a_folder_may_hold_several_sizes(tmp_path):
    folder = tmp_path / "folder"
    for file, size in (("b", [3, 2]), ("a", [2, 3]), ("c", [3, 2])):
        experts(folder, "jssp", file, JSSP([size], [size]), n=300)  # together more than sampled ones may be
    (folder / "README").write_text("not a dataset")
    result = done(train, *supervised("jssp", folder), cwd=tmp_path)
    assert "experts of size 2x3, 3x2; validation instances of size 3x2" in result.stdout
    assert metrics_of(tmp_path / "run")[-1]["training/dataset_size"] == 900
    assert sorted(path.name for path in (tmp_path / "run" / "dataset").iterdir()) == ["a.npz", "b.npz", "c.npz"]


def change(source, changes):
    """Put other arrays into the file; None takes one out."""
    arrays = {**arrays_of(source), **changes}
    np.savez(source, **{key: value for key, value in arrays.items() if value is not None})


def arrays_of(source):
    with np.load(source) as given:
        return dict(given)


WRONG = {
    "no coordinates": (lambda a: {"instance.coords": None}, "damaged or holds something else"),
    "float64": (lambda a: {"instance.coords": a["instance.coords"].astype("f8")}, "must be torch.float32 of 3 dim"),
    "fewer solutions": (lambda a: {"actions": a["actions"][1:]}, "is damaged: 40 instances, 39 solutions"),
    "shorter": (lambda a: {"actions": a["actions"][:, 1:]}, "experts.npz: a tour of 6 nodes has 5 actions"),
    "a node twice": (lambda a: {"actions": a["actions"].clip(max=4)}, "does not visit each of the nodes"),
    "int32": (lambda a: {"actions": a["actions"].astype("i4")}, "experts.npz: actions must be torch.int64"),
    "wrong costs": (lambda a: {"costs": a["costs"] * 1.001}, "the stated costs are not those of the solutions"),
    "nothing in it": (lambda a: {key: value[:0] for key, value in a.items()}, "no solutions"),
}


@pytest.fixture(scope="module")
def tours(tmp_path_factory):
    return experts(tmp_path_factory.mktemp("tours"), "tsp").read_bytes()


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_refused_before_there_is_a_run(case, tmp_path, tours):
    source = tmp_path / "experts.npz"
    source.write_bytes(tours)
    changed, message = WRONG[case]
    change(source, changed(arrays_of(source)))
    line = refused(train, *supervised("tsp", source), cwd=tmp_path)
    assert message in line and "experts.npz" in line


@pytest.mark.parametrize(("name", "of"), list(permutations(WORDS, 2)))
def test_the_files_of_other_problems_are_refused(name, of, tmp_path):
    source = experts(tmp_path, of, n=20)
    assert str(source) in refused(train, *supervised(name, source), cwd=tmp_path)


def test_missing_and_empty_sources_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.npz").write_text("not an archive")
    for source, message in (
        ("none.npz", "there is no file none.npz"),
        ("empty", "there are no .npz files in empty"),
        ("text.npz", "text.npz is damaged or holds something else"),
    ):
        assert message in refused(train, *supervised("tsp", source), cwd=tmp_path)


@pytest.mark.parametrize("name", PROBLEMS)
def test_experts_in_other_units_are_scaled_as_instances_to_be_solved(name, tmp_path):
    source, problem = experts(tmp_path, name), PROBLEMS[name]
    key = "instance.times" if name == "jssp" else "instance.coords"
    moved = 5000 if key == "instance.coords" else 0
    arrays = arrays_of(source)
    change(source, {key: arrays[key] * 1000 + moved, "costs": arrays["costs"] * 1000})
    (shard,) = read_experts(source, problem, problem.generate(1, torch.Generator()))
    (instance_set,) = problem.load(str(source))
    torch.testing.assert_close(shard.instances, instance_set.instances)
    assert torch.equal(shard.costs, problem.cost(shard.instances, shard.actions))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_file_of_experts_is_a_set_to_be_solved_too(name, tmp_path):
    """Its costs are the references, its solutions have them."""
    file = experts(tmp_path, name, n=7)
    (shard,) = read_experts(file, PROBLEMS[name], PROBLEMS[name].generate(1, torch.Generator()))
    (instance_set,) = PROBLEMS[name].load(str(file), 5)
    assert instance_set.kinds == ["cost of experts.npz"] * 5 and instance_set.names[4] == "experts/4"
    torch.testing.assert_close(instance_set.references, shard.costs[:5].double())
    costs = instance_set.true_cost(torch.arange(5), shard.actions[:5])
    torch.testing.assert_close(costs, instance_set.references, rtol=1e-5, atol=0)
