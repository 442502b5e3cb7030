"""The training loop: what it learns, what it keeps, and that neither workers nor interruptions change it."""

from __future__ import annotations

import copy
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import train
from gumbeldore.batches import batch_size, take
from gumbeldore.cli.run_recorder import RunRecorder
from gumbeldore.cli.setup import set_up
from gumbeldore.cli.training import resumable
from gumbeldore.parallel import ray_cluster as cluster
from gumbeldore.parallel.devices import CPU_BATCH_ROWS, resolve_rows, resolve_threads, resolve_workers
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.runtime.stopping import Stopper
from gumbeldore.sampler import methods
from gumbeldore.sampler import trie as trie_ops
from gumbeldore.sampler.search import search
from gumbeldore.seeding import fold
from gumbeldore.training import experts as pseudo_experts
from gumbeldore.training.dataset import PseudoExperts
from gumbeldore.training.experts import sample_experts
from gumbeldore.training.validation import validate, validation_set
from models.bq_tsp import BQ
from problems.tsp import TSP, Instance
from tests.helpers.commands import compose, typed
from tests.helpers.interruptions import Killed, dies_after
from tests.helpers.learners import SEARCH, SIZES, Reports, new_learner, reports_of, same_weights, trained
from tests.helpers.runs import metrics_of, same_runs
from tests.helpers.solutions import random_experts
from tests.helpers.trees import TablePolicy, TreeProblem

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing():
    (alone, reports), (together, others) = trained(workers=0), trained(workers=2)
    assert same_weights(alone.policy, together.policy) and same_weights(alone.best, together.best)
    for a, b in zip(reports, others, strict=True):
        for name, value in a.metrics.items():
            assert "second" in name or b.metrics[name] == value, name


@pytest.mark.parametrize("search_batch_rows", [3, 12, 1000])
def test_the_chunk_size_changes_nothing_for_an_exact_policy(search_batch_rows):
    problem, policy = TreeProblem(), TablePolicy()
    trees, keys = problem.generate(50, torch.Generator().manual_seed(0)), torch.arange(50)
    found = {}
    for rows in (1, search_batch_rows):
        for chunk, solutions in SearchPool(problem, policy, 0, rows).map(trees, keys, methods.gumbeldore(3, 3, 1.0)):
            for row in range(chunk.start, chunk.stop):
                valid = solutions.valid[row - chunk.start]
                values = [
                    getattr(solutions, name)[row - chunk.start][valid] for name in ("actions", "gumbels", "costs")
                ]
                if row in found:
                    assert all(torch.equal(a, b) for a, b in zip(found[row], values, strict=True))
                found[row] = values
    assert len(found) == 50


@pytest.mark.parametrize(
    ("count", "search_batch_rows", "config", "sizes"),
    [
        (10, 12, SEARCH, [2, 3, 2, 3]),  # three instances fill the rows, and none is left over alone
        (6, 12, SEARCH, [3, 3]),
        (3, 100, SEARCH, [3]),
        (7, 100, SEARCH, [3, 4]),  # one chunk would do, but two workers can share these
        (24, 100, methods.greedy(), [24]),
        (25, 100, methods.greedy(), [12, 13]),
        (1, 8, SEARCH, [1]),
    ],
)
def test_chunks_are_as_equal_as_can_be(count, search_batch_rows, config, sizes):
    problem, policy = TSP(7), new_learner().policy
    instances = problem.generate(count, torch.Generator().manual_seed(0))
    chunks = [
        chunk
        for chunk, _ in SearchPool(problem, policy, 0, search_batch_rows).map(instances, torch.arange(count), config)
    ]
    assert [chunk.stop - chunk.start for chunk in chunks] == sizes
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(count))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_several_searches_at_once_are_those_one_after_another(workers):
    problem, policy = TSP(7), new_learner().policy
    instances, keys = problem.generate(10, torch.Generator().manual_seed(0)), torch.arange(10)
    configs = (SEARCH, methods.greedy())
    with SearchPool(problem, policy, workers, search_batch_rows=12) as pool:
        found = {(which, chunk.start): x.actions for which, chunk, x in pool.map_all(instances, keys, configs)}
        apart = {(i, chunk.start): x.actions for i in (0, 1) for chunk, x in pool.map(instances, keys, configs[i])}
    assert found.keys() == apart.keys() and all(torch.equal(found[part], apart[part]) for part in found)
    assert {which for which, _ in found} == {0, 1}


class Process(NamedTuple):
    number: int
    solutions: int


def process(solutions):
    return Process(os.getpid(), int(solutions.valid.sum()))


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_solutions_are_read_where_they_were_searched(workers):
    problem, policy = TSP(7), new_learner().policy
    instances, keys = problem.generate(10, torch.Generator().manual_seed(0)), torch.arange(10)
    with SearchPool(problem, policy, workers) as pool:
        found = [x for *_, x in pool.map_all(instances, keys, [methods.wor(4)], read=process)]
    assert sum(x.solutions for x in found) == 40
    assert all((x.number == os.getpid()) == (workers == 0) for x in found)


@pytest.mark.parametrize("config", [methods.gumbeldore(3, 3, 1.0), methods.sampling(4), methods.greedy()])
def test_chunks_shrink_to_the_memory_of_their_tries(config, monkeypatch):
    problem, policy = TreeProblem(), TablePolicy()
    trees, keys = problem.generate(50, torch.Generator().manual_seed(0)), torch.arange(50)
    pool, asked = SearchPool(problem, policy), []
    monkeypatch.setattr(pool.local, "search", lambda part, *_: asked.append(part))
    created, create = [], trie_ops.create
    monkeypatch.setattr(trie_ops, "create", lambda *args, **kw: created.append(create(*args, **kw)) or created[-1])
    search(problem, policy, take(trees, slice(0, 1)), config, keys=keys[:1])
    tree = created[-1]  # the first one, without storage, tells whether there is room
    for memory, size in ((7.5, 7), (0.5, 1), (100, 50)):  # never less than one instance
        pool.trie_budget = int(memory * trie_ops.memory(tree))
        asked.clear()
        list(pool.map(trees, keys, config))
        assert max(map(batch_size, asked)) == size and sum(map(batch_size, asked)) == 50


def test_training_improves_and_best_is_strictly_the_best():
    train_state, reports = trained(epochs=6, batches_per_epoch=60, learning_rate=5e-3)
    with SearchPool(TSP(7), new_learner().policy) as pool:
        untrained = validate(pool, validation_set(TSP(7), SIZES["validation_instances"], seed=0), lambda *_: None).cost
    costs = [report.metrics["quality/greedy_cost"] for report in reports]
    bests = [report.metrics["quality/best_greedy_cost"] for report in reports]
    assert bests == [min(costs[: i + 1]) for i in range(6)]
    assert bests[-1] < 0.85 * untrained
    size = 0
    for before, report, cost in zip([math.inf, *bests], reports, costs, strict=False):
        assert report.improved == (cost < before)
        assert report.metrics["training/dataset_size"] == size + 10
        size = 0 if report.improved else size + 10  # emptied only then
    assert len(train_state.dataset) == size and 1 < sum(report.improved for report in reports) < 6


def test_every_epoch_sees_new_instances():
    problem = TSP(7)
    seen = []

    class Remember(PseudoExperts):
        def add(self, name, instances, actions, costs):
            seen.append(instances.coords)
            assert torch.allclose(problem.cost(instances, actions).double(), costs)
            super().add(name, instances, actions, costs)

    train_state = new_learner()
    train_state.dataset = Remember()
    reports_of(train_state, SearchPool(problem, train_state.policy))
    assert len(seen) == 3 and not torch.equal(seen[0], seen[1])


def test_every_epoch_of_every_seed_has_its_own_instances_and_batches(monkeypatch):
    """Six different ones in three epochs with two seeds; with the same seed the same ones again."""
    coords, seeds = [], []
    instances, fit = pseudo_experts.training_instances, train.fit

    def watched_instances(*arguments):
        found = instances(*arguments)
        coords.append(found.coords.sum().item())
        return found

    def watched_fit(problem, state, settings, draws, execution):
        seeds.append(draws.initial_seed())
        return fit(problem, state, settings, draws, execution)

    monkeypatch.setattr(pseudo_experts, "training_instances", watched_instances)
    monkeypatch.setattr(train, "fit", watched_fit)
    for seed in (5, 6, 5):
        train_state = new_learner()
        reports_of(train_state, SearchPool(TSP(7), train_state.policy), seed=seed, batches_per_epoch=1)
    for seen in (coords, seeds):
        assert len(seen) == 9 and len(set(seen[:6])) == 6 and seen[6:] == seen[:3]


@pytest.mark.parametrize(
    "changes",
    [{"learning_rate": 5e-3}, {"learning_rate_end_factor": 0.5}, {"gradient_clip": 1e-3}],
)
def test_every_setting_of_the_training_matters(changes):
    def weights(**sizes):
        train_state = new_learner(**sizes)
        reports_of(train_state, SearchPool(TSP(7), train_state.policy), **sizes)
        return train_state.policy

    assert not same_weights(weights(), weights(**changes))


@pytest.mark.parametrize("patience", [1, 3])
def test_training_ends_after_some_epochs_without_a_better_policy(patience):
    """Steps that change next to nothing: the first trained policy is accepted, no other one is better."""
    train_state, reports = trained(epochs=9, learning_rate=1e-30, patience=patience)
    assert [report.improved for report in reports] == [True] + [False] * patience
    assert train_state.since_best == patience and train_state.stale(patience) and not train_state.stale(patience + 1)


def test_the_first_signal_after_the_time_limit_is_the_first():
    with Stopper(1e-9) as stopper:
        time.sleep(1e-3)
        assert stopper() and stopper.reason == "time limit reached"
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)


def test_stopping_keeps_what_is_complete():
    """After a stop before the first batch nothing has changed; after a later one the policy is validated."""
    for calls, shards, validated in ((2, 0, False), (5, 1, False), (6, 1, True)):
        train_state, recorder, left = new_learner(), Reports(), iter(range(calls))
        reports_of(
            train_state,
            SearchPool(TSP(7), train_state.policy, search_batch_rows=20),
            stop=lambda left=left: next(left, None) is None,
            recorder=recorder,
            batches_per_epoch=40,
        )
        assert recorder.all == [] and train_state.epoch == 0 and len(train_state.dataset.shards) == shards
        assert recorder.saved == ([train_state.best_cost] if validated else [])
        assert (train_state.best_cost < math.inf) == validated == (train_state.totals["seconds"] > 0)


def test_all_evaluations_are_counted_while_sampling():
    """Those of the greedy solutions, too, to which the sampled ones are compared."""
    counted = []

    class Counting(BQ):
        def forward(self, context, state):
            counted.append(len(state.origin))
            return super().forward(context, state)

    policy = Counting(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)
    instances = TSP(7).generate(5, torch.Generator().manual_seed(0))
    with SearchPool(TSP(7), policy) as pool:
        found = sample_experts(pool, instances, torch.arange(5), SEARCH)
    assert found.metrics["sampling/evaluations"] == sum(counted) > 0


@pytest.mark.parametrize("with_best", [True, False])
def test_experts_come_from_the_best_policy_or_the_current_one(with_best):
    """Each epoch's, sampled again with the policy that was the best, or the current one, when the epoch began."""
    train_state = new_learner()
    policies = (train_state.best, train_state.policy) if with_best else (train_state.policy, train_state.best)
    best, others = ([copy.deepcopy(policy.state_dict())] for policy in policies)

    def after():
        for weights, policy in zip((best, others), policies, strict=True):
            weights.append(copy.deepcopy(policy.state_dict()))

    pool = SearchPool(TSP(7), train_state.policy)
    train_state.dataset.clear = lambda: None
    sizes = {"epochs": 6, "learning_rate": 5e-3, "sample_with_best": with_best}
    reports_of(train_state, pool, recorder=Reports(after), **sizes)

    def same(epoch, weights):
        pool.load(weights)
        shard, keys = train_state.dataset.shards[epoch], fold(5, "sampling", epoch, torch.arange(10))
        return torch.equal(sample_experts(pool, shard.instances, keys, SEARCH).actions, shard.actions)

    assert [same(epoch, best[epoch]) for epoch in range(6)] == [True] * 6
    assert not same(5, best[0]) and not all(same(epoch, others[epoch]) for epoch in range(6))


def test_experts_that_are_not_kept_are_imitated_in_their_own_epoch_alone():
    train_state, reports = trained(epochs=6, learning_rate=5e-3, keep_experts=False)
    assert not all(report.improved for report in reports[1:])  # they would have been kept
    assert [report.metrics["training/dataset_size"] for report in reports] == [10] * 6
    assert len(train_state.dataset) == 0


class BadProblem(TSP):
    def cost(self, instance, actions):
        raise ZeroDivisionError("the depot is on fire")


@pytest.mark.slow
def test_a_workers_error_ends_the_run_with_its_text():
    policy = BQ(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)
    instances = TSP(7).generate(4, torch.Generator())
    with SearchPool(BadProblem(7), policy, workers=1) as pool:
        pool.load(policy.state_dict())
        with pytest.raises(WorkerError, match="the depot is on fire"):
            list(pool.map(instances, torch.arange(4), SEARCH))


def test_workers_auto_and_wrong():
    cpu = torch.device("cpu")
    assert resolve_workers("auto", cpu, 1) >= 1 and resolve_workers("auto", cpu, 10_000) == 1
    for wrong in (-1, 1.5, "many", True):
        with pytest.raises(ValueError, match="workers must be"):
            resolve_workers(wrong, cpu, 1)


def test_trainer_threads_auto_and_wrong(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert [resolve_threads("auto", train_processes) for train_processes in (1, 2, 3, 9)] == [8, 4, 2, 1]
    assert resolve_threads(3, 2) == 3
    for wrong in (0, True, "many", 1.5):
        with pytest.raises(ValueError, match="train_threads must be"):
            resolve_threads(wrong, 1)


def test_chunk_rows_auto_and_wrong():
    cpu = torch.device("cpu")
    assert resolve_rows("auto", cpu) == CPU_BATCH_ROWS < resolve_rows("auto", torch.device("cuda:0"))
    assert resolve_rows(7, cpu) == 7
    for wrong in (0, 1.5, "many", True):
        with pytest.raises(ValueError, match="search_batch_rows must be 'auto' or an integer of at least 1"):
            resolve_rows(wrong, cpu)


def test_one_gpu_needs_no_actor(monkeypatch):
    gpu = torch.device("cuda")
    for gpus, joined, expected in ((1, False, 0), (2, False, 2), (1, True, 1)):
        monkeypatch.setattr(cluster, "gpus", lambda gpus=gpus: gpus)
        monkeypatch.setattr(cluster, "joined", lambda joined=joined: joined)
        assert resolve_workers("auto", gpu, 1) == expected
        assert resolve_workers("auto", torch.device("cuda:0"), 1) == 0


# ---- the dataset


def test_dataset_appends_restores_and_prunes(tmp_path):
    dataset = PseudoExperts(tmp_path)
    for epoch in range(4):
        if epoch == 2:
            dataset.clear()
        dataset.add(f"epoch_{epoch}", *random_experts(10, 6, epoch))
    assert len(dataset) == 20 and [shard.name for shard in dataset.shards] == ["epoch_2", "epoch_3"]
    assert len(list(tmp_path.iterdir())) == 4  # forgotten ones are still there ...
    (tmp_path / "epoch_9.npz.gumbeldore-tmp").write_bytes(b"torn")
    dataset.prune()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch_2.npz", "epoch_3.npz"]  # ... until now

    again = PseudoExperts(tmp_path)
    again.restore(["epoch_2", "epoch_3"], Instance)
    draws = [d.batch(TSP(6), 64, torch.Generator().manual_seed(1)) for d in (dataset, again)]
    assert torch.equal(draws[0].remaining_actions, draws[1].remaining_actions)
    assert torch.equal(draws[0].instance.coords, draws[1].instance.coords)
    with pytest.raises(ValueError, match="there is no file .*epoch_1.npz"):
        again.restore(["epoch_1"], Instance)


def test_batches_hold_one_size_and_every_step():
    dataset, problem = PseudoExperts(), TSP(6)
    dataset.add("small", *random_experts(10, 6))
    dataset.add("large", *random_experts(30, 9))
    dataset.add("more small", *random_experts(10, 6, 2))
    draws = torch.Generator().manual_seed(0)
    seen = {6: set(), 9: set()}
    for _ in range(300):
        example = dataset.batch(problem, 4, draws)
        seen[example.instance.coords.shape[1]].add(example.state.remaining.shape[1])
        assert problem.mask(example.instance, example.state).gather(1, example.remaining_actions[:, :1]).all()
    assert seen == {6: {2, 3, 4, 5}, 9: {2, 3, 4, 5, 6, 7, 8}}  # from two remaining nodes up
    with pytest.raises(ValueError, match="no pseudo-experts"):
        PseudoExperts().batch(problem, 4, draws)


# ---- checkpoints and interruptions


def test_metrics_after_the_checkpoint_are_forgotten(tmp_path):
    run = RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n")
    for epoch in (1, 2, 3):
        run.append_metrics({"epoch": epoch})
    with open(run.metrics, "a") as file:
        file.write('{"epoch": 4, "qua')
    run.forget_metrics_after(2)
    assert [json.loads(line)["epoch"] for line in run.metrics.read_text().splitlines()] == [1, 2]
    with pytest.raises(ValueError, match="not empty"):
        RunDirectory.create(tmp_path / "run", unique=False, config="")
    assert RunDirectory.create(tmp_path / "run", unique=True, config="").path.name == "run-2"


def test_lines_of_others_among_the_metrics_stay(tmp_path):
    run = RunDirectory.create(tmp_path / "run", unique=False, config="a: 1\n")
    mine = b'note\n3\n["epoch"]\n{"epoch": "first"}\n\n\xff\n{"epoch": 1}\n'
    run.metrics.write_bytes(mine + b'{"epoch": 3}\nno end')
    run.forget_metrics_after(2)
    assert run.metrics.read_bytes() == mine + b"no end\n"


COMMAND = [
    *[sys.executable, str(ROOT / "train.py"), "debug=fast", "images_every=100", "precision=float32"],
    *["train.epochs=5", "train.batches_per_epoch=150", "model.layers=2", "model.width=16", "model.heads=2"],
]


def start(*overrides, cwd):
    return subprocess.Popen([*COMMAND[:2], *overrides], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0


JSSP4X3 = ["problem=jssp", "problem.sizes=[[4,3],[3,4]]", "problem.validation_sizes=[[4,3]]", "model.blocks=1"]
CVRP7 = ["problem=cvrp", "problem.num_customers=7", "problem.capacity=[15,20]", "model.layers=1"]


@pytest.mark.parametrize(
    ("words", "share"),
    [
        pytest.param(CVRP7, 0.97, marks=pytest.mark.slow),
        pytest.param(JSSP4X3, 0.9, marks=pytest.mark.slow),
    ],
    ids=["cvrp", "jssp"],
)
def test_other_problems_improve_and_continue_exactly(words, share, tmp_path, monkeypatch):
    """One run goes through, the other dies while it trains in its third epoch, and is resumed."""
    words = [*words, "debug=fast", "images_every=100", "precision=float32", "model.width=16", "model.heads=2"]
    words += ["train.epochs=3", "train.batches_per_epoch=30", "train.batch_size=64", "train.validation_instances=200"]
    whole = typed(train, *words, "run_dir=whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    with monkeypatch.context() as patch, pytest.raises(Killed):
        dies_after(patch, batches=75)
        typed(train, *words, "run_dir=died", cwd=tmp_path)
    assert len(metrics_of(tmp_path / "died")) == 2
    resumed = typed(train, "resume=died", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    same_runs(tmp_path / "whole", tmp_path / "died", epochs=3)
    left = checkpoint.load(tmp_path / "whole/checkpoints/last.pt")["train_state"]["dataset"]
    assert sorted(path.stem for path in (tmp_path / "whole/dataset").iterdir()) == left  # the forgotten ones are gone
    setup = set_up(compose("train", *words))
    untrained = validate(SearchPool(setup.problem, setup.policy), setup.validation, lambda *_: None).cost
    assert metrics_of(tmp_path / "whole")[-1]["quality/best_greedy_cost"] < share * untrained


@pytest.mark.slow
def test_interrupting_ends_cleanly(tmp_path):
    run = start(*COMMAND[2:], "train.epochs=100000", "run_dir=run", cwd=tmp_path)
    while lines_of(tmp_path / "run" / "metrics.jsonl") < 1:
        assert run.poll() is None, run.communicate()[0].decode()
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    output = run.communicate()[0].decode()
    assert run.returncode == 0 and "interrupted" in output and "resume=run" in output
    assert checkpoint.load(tmp_path / "run" / "checkpoints" / "last.pt")["epoch"] >= 1


def test_an_interruption_after_the_last_epoch_leaves_nothing_to_continue(tmp_path, monkeypatch):
    monkeypatch.setattr(RunRecorder, "epoch", lambda *_: signal.raise_signal(signal.SIGINT))
    words = ["debug=fast", "problem.num_nodes=6", "train.epochs=1", "workers=0", "run_dir=run"]
    done = typed(train, *words, cwd=tmp_path)
    assert done.returncode == 0 and "finished\n" in done.stdout and "continue:" not in done.stdout


@pytest.mark.parametrize("content", [None, b"torn"])
def test_a_checkpoint_is_called_intact_only_if_it_is(content, tmp_path):
    with RunDirectory.create(tmp_path / "run", unique=False, config="") as run:
        if content:
            run.last.write_bytes(content)
        with pytest.raises(ValueError, match="^disk full; .*last.pt") as error, resumable(run):
            raise OSError("disk full")
    assert "intact" not in str(error.value) and "goes on" not in str(error.value)
