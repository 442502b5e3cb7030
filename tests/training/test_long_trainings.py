"""What trainings of days need: a start from given weights, changes when they go on, a cool-down, snapshots."""

from __future__ import annotations

import math

import pytest
import torch
from omegaconf import OmegaConf

import evaluate
import train
from gumbeldore.evaluation.loading import check_same_function
from gumbeldore.parallel.devices import CPU_BATCH_ROWS
from gumbeldore.reporting import validation_figure
from gumbeldore.runtime import checkpoint
from gumbeldore.runtime.run_directory import MOST_SNAPSHOTS, RunDirectory
from gumbeldore.training.dataset import Shard
from gumbeldore.training.imitation import learning_rate_factor
from gumbeldore.training.settings import TrainSettings
from gumbeldore.training.validation import validation_set
from problems.jssp import JSSP
from problems.tsp import TSP
from tests.helpers.commands import done, refused
from tests.helpers.learners import SIZES, new_learner, trained
from tests.helpers.runs import metrics_of

SMALL = ["debug=fast", "problem.num_nodes=8", "model.layers=1", "model.width=16", "model.feedforward=32"]
SMALL += ["precision=float32", "images_every=100"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run of two epochs in it."""
    folder = tmp_path_factory.mktemp("runs")
    run(folder, *SMALL, "train.batches_per_epoch=60", "run_dir=first")
    return folder


def run(folder, *words, program=train):
    return done(program, *words, cwd=folder).stdout


def saved(folder, name, file="last.pt"):
    return checkpoint.load(folder / name / "checkpoints" / file)


# ---- init


@pytest.mark.parametrize("source", ["first", "first/checkpoints/best.pt"])
def test_init_takes_the_weights_and_nothing_else(source, folder, tmp_path):
    run(tmp_path, *SMALL, f"init={folder / source}", "train.epochs=0", "problem.num_nodes=12", "run_dir=second")
    weights, state = saved(folder, "first", "best.pt")["weights"], saved(tmp_path, "second")
    for ours in (state["weights"], state["train_state"]["policy"]):
        assert all(torch.equal(ours[name], value) for name, value in weights.items())
    assert state["epoch"] == 0 and state["train_state"]["dataset"] == []
    assert not any(each["state"] for each in state["train_state"]["optimizer"])


def test_a_policy_worse_than_the_one_training_began_with_is_not_accepted(folder, tmp_path):
    """Steps that are far too large ruin it."""
    words = [*SMALL, f"init={folder / 'first'}", "train.learning_rate=9", "train.muon_learning_rate=9"]
    text = run(tmp_path, *words, "train.epochs=1", "run_dir=ruined")
    cost = float(text.split("greedy cost ")[1].split()[0])
    last = saved(tmp_path, "ruined")
    assert last["best_cost"] == pytest.approx(cost, abs=1e-4)
    assert metrics_of(tmp_path / "ruined")[0]["quality/greedy_cost"] > cost
    weights = saved(folder, "first", "best.pt")["weights"]
    assert all(torch.equal(last["weights"][name], value) for name, value in weights.items())


def test_pictures_show_the_first_policy_as_long_as_it_is_known(folder, tmp_path, monkeypatch):
    """The weights of init= are in another run; one that goes on does not take random ones for them."""
    shown = []
    monkeypatch.setattr(validation_figure, "solutions_of", lambda *arguments: shown.append([*arguments[3]]))
    words = [*SMALL[:-1], "images_every=1", "train.epochs=1"]
    run(tmp_path, *words, f"init={folder / 'first'}", "run_dir=second")
    run(tmp_path, "resume=second", "train.epochs=2")
    run(tmp_path, *words, "run_dir=third")
    run(tmp_path, "resume=third", "train.epochs=2")
    both = ["first policy", "best policy"]
    assert shown == [both, ["best policy"], both, both]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model.width=32"], "its layer origin is [16], here it is [32]"),
        (["model.layers=2"], "its layer layers.1.scale is not there, here it is []"),
        (["model.successor_loss=0"], "its layer successor_loss.query.weight is [16, 16], here it is not there"),
        (["model.heads=2"], "the networks differ: its model.heads is 4, here it is 2"),
        (["problem=cvrp", "problem.num_customers=8"], "starts: it is a policy for tsp, not for cvrp"),
    ],
)
def test_an_init_that_does_not_fit_names_the_layer_or_the_setting(words, message, folder, tmp_path):
    small = [word for word in SMALL if not (word.startswith("problem.") and "problem=cvrp" in words)]
    error = refused(train, *small, *words, f"init={folder / 'first'}", "run_dir=second", cwd=tmp_path)
    assert "first/checkpoints/best.pt cannot be where training starts: " in error and message in error


@pytest.mark.parametrize("reverse", [False, True])
def test_a_file_without_a_setting_of_today_has_its_default(reverse):
    """One that was written before `model.due_dates` fits a network without it, and no other."""
    old = {"_target_": "models.job_shop.JobShop", "width": 8, "lookahead": True, "order_loss": 3.0}
    check_same_function(old, old | {"due_dates": False, "order_loss": 0.0})
    pair = (old | {"due_dates": True}, old) if reverse else (old, old | {"due_dates": True})
    with pytest.raises(ValueError, match=f"its model.due_dates is {reverse}, here it is {not reverse}"):
        check_same_function(*pair)


# ---- changes when a run goes on


@pytest.mark.slow
def test_precision_and_threads_can_change_when_a_run_goes_on(folder):
    run(folder, *SMALL, "train.epochs=1", "run_dir=changes", "train_threads=1")
    words = ["train.epochs=2", "train_threads=2", "workers=2", "worker_threads=2", "precision=float32"]
    run(folder, "resume=changes", *words)
    for now in (OmegaConf.load(folder / "changes" / "config.yaml"), saved(folder, "changes")["config"]):
        assert (now["train_threads"], now["workers"], now["worker_threads"], now["train"]["epochs"]) == (2, 2, 2, 2)
    assert len(metrics_of(folder / "changes")) == 2


@pytest.mark.slow
def test_a_run_that_moves_to_another_device_decides_anew_what_depends_on_it(folder):
    words = [f"run_dir={folder}/moves", "train.epochs=1", "search_batch_rows=8", "train_threads=1"]
    run(folder, *SMALL, *words)
    for words, rows in (([], 8), (["device=cpu"], CPU_BATCH_ROWS), (["device=cpu", "search_batch_rows=16"], 16)):
        run(folder, "resume=moves", *words)
        config = saved(folder, "moves")["config"]
        assert (config["search_batch_rows"], config["device"]) == (rows, "cpu")  # not auto: it stays there


def test_a_run_whose_gpu_is_not_there_says_how_to_go_on(folder):
    run(folder, *SMALL, "train.epochs=1", "run_dir=gone")
    config = folder / "gone" / "config.yaml"
    config.write_text(config.read_text().replace("device: cpu", "device: cuda:99"))
    said = refused(train, "resume=gone", cwd=folder)
    assert "device=cuda:99 cannot be used: " in said and "; device=auto takes what is there" in said
    run(folder, "resume=gone", "device=auto")


def test_fewer_epochs_than_done_and_other_keys_are_refused(folder):
    for key, message in (("epochs", "train.epochs=1 is less than the 2 epochs done"), ("learning_rate", "not train.l")):
        assert message in refused(train, "resume=first", f"train.{key}=1", cwd=folder)


@pytest.mark.parametrize("text", ["", "- a", "5", "a: [", "train: 3", "\0"])
def test_a_configuration_that_was_spoiled_is_refused_in_one_line(text, folder):
    with RunDirectory.open(folder / "first") as directory:
        whole = directory.config.read_text()
    directory.config.write_text(text)
    try:
        assert "first/config.yaml is not the configuration of a run: " in refused(train, "resume=first", cwd=folder)
    finally:
        directory.config.write_text(whole)


@pytest.mark.slow
def test_a_cooldown_can_be_started_later(folder):
    """A constant rate until then; the last epoch has the final one."""
    rates = ["train.learning_rate=0.01", "train.learning_rate_end_factor=0.1", "train.cooldown_epochs=2"]
    stopped = run(folder, *SMALL, *rates, "train.epochs=100", "time_limit=0.01", "run_dir=constant")
    assert "train.py resume=constant time_limit=null  # from the beginning of epoch 1\n" in stopped
    run(folder, "resume=constant", "time_limit=null", "train.epochs=4")  # both hold from then on
    found = [line["training/learning_rate"] for line in metrics_of(folder / "constant")]
    assert found == pytest.approx([0.01, 0.01, 0.0055, 0.001])
    run(folder, "resume=constant", "train.epochs=6", "train.cooldown_epochs=1")  # and be taken back
    found = [line["training/learning_rate"] for line in metrics_of(folder / "constant")]
    assert found[4:] == pytest.approx([0.01, 0.001])


@pytest.mark.parametrize(
    ("cooldown", "end", "expected"),
    [
        (None, 0.1, [1.0, 0.775, 0.55, 0.325, 0.1]),
        (4, 0.1, [1.0, 0.775, 0.55, 0.325, 0.1]),
        (2, 0.1, [1.0, 1.0, 1.0, 0.55, 0.1]),
        (1, 0.1, [1.0, 1.0, 1.0, 1.0, 0.1]),
        (8, 0.1, [1.0, 0.775, 0.55, 0.325, 0.1]),  # no more epochs than there are
        (None, 1.0, [1.0] * 5),
    ],
)
def test_the_rate_falls_in_the_last_epochs(cooldown, end, expected):
    sizes = {"epochs": 5, "learning_rate_end_factor": end, "cooldown_epochs": cooldown}
    settings = TrainSettings(**{**SIZES, **sizes})
    assert [learning_rate_factor(settings, epoch) for epoch in range(5)] == pytest.approx(expected)


# ---- snapshots


def test_snapshots_are_policies_of_their_epochs(tmp_path):
    run(tmp_path, *SMALL, "train.epochs=3", "checkpoint_every=2", "run_dir=run")
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["best.pt", "epoch_000002.pt", "last.pt"]
    assert saved(tmp_path, "run", "epoch_000002.pt")["epoch"] == 2
    words = ["checkpoint=run/checkpoints/epoch_000002.pt", "instances=kool/tsp20", "num_instances=2", "workers=0"]
    run(tmp_path, *words, program=evaluate)


def test_snapshots_are_bounded_and_spread_over_the_run(tmp_path):
    with RunDirectory.create(tmp_path / "run", unique=False, config="") as directory:
        for epoch in range(5, 1001, 5):
            directory.snapshot(epoch).touch()
            directory.thin_out_snapshots()
            kept = sorted(int(path.stem[6:]) for path in directory.last.parent.iterdir())
            assert len(kept) <= MOST_SNAPSHOTS and kept[-1] == epoch
            assert len(kept) >= min(epoch // 5, MOST_SNAPSHOTS // 2)
            assert max(b - a for a, b in zip([0, *kept], kept, strict=False)) <= 4 * max(5, epoch / MOST_SNAPSHOTS)
    assert [epoch for epoch in kept if epoch <= 800] == [*range(80, 801, 80)]


def test_snapshots_at_another_distance_do_not_replace_the_earlier_ones(tmp_path):
    with RunDirectory.create(tmp_path / "run", unique=False, config="") as directory:
        mine = directory.last.with_name("epoch_chosen.pt")
        for epoch in (*range(3, 61, 3), *range(63, 106, 7)):
            directory.snapshot(epoch).touch()
        mine.touch()
        directory.thin_out_snapshots()
        assert mine.exists()
        mine.unlink()
        kept = sorted(int(path.stem[6:]) for path in directory.last.parent.iterdir())
        assert kept == [*range(6, 61, 6), 70, 84, 98, 105]


# ---- experts of several sizes


def test_larger_instances_are_fewer_if_decisions_are_limited():
    """TSP-7 has six decisions."""
    for limit, count in ((None, 10), (60, 10), (59, 9), (24, 4), (1, 1)):
        _, reports = trained(epochs=1, decisions_per_epoch=limit)
        assert reports[0].metrics["training/dataset_size"] == count


def test_sizes_are_learnt_from_in_proportion_to_their_decisions():
    """30 of 2 x 2 (3 decisions to learn each) and 10 of 4 x 4 (15 each): 90 and 150 decisions."""
    problem, dataset = JSSP([[2, 2]], [[2, 2]]), new_learner().dataset
    for name, size, count in (("a", 2, 30), ("b", 4, 10)):
        instances = JSSP([[size, size]], [[2, 2]]).generate(count, torch.Generator().manual_seed(0))
        actions = torch.arange(size).repeat_interleave(size).expand(count, -1)
        dataset.add(Shard(name, instances, actions, problem.cost(instances, actions)))
    generator, large = torch.Generator().manual_seed(1), 0
    for _ in range(400):
        large += dataset.batch(problem, 1, generator).instance.times.shape[1] == 4
    expected, deviation = 400 * 150 / 240, math.sqrt(400 * 150 * 90) / 240
    assert abs(large - expected) < 5 * deviation


def test_validation_of_several_sizes_is_shown_by_size(tmp_path):
    words = ["debug=fast", "problem=jssp", "problem.sizes=[[2,3]]", "problem.validation_sizes=[[2,3],[4,2]]"]
    run(tmp_path, *words, "train.epochs=1", "train.validation_instances=6", "run_dir=run")
    (line,) = metrics_of(tmp_path / "run")
    costs = [line[f"quality/greedy_cost_{size}"] for size in ("2x3", "4x2")]
    assert line["quality/greedy_cost"] == pytest.approx(sum(costs) / 2) and costs[0] != costs[1]
    assert "quality/greedy_gap" not in line  # none has a reference


def test_a_problem_with_one_validation_set_of_no_list_is_told_so():
    class Mine(TSP):
        def validation(self, n, seed):
            return super().validation(n, seed)[0]

    with pytest.raises(ValueError, match="Mine.validation must return a list with an InstanceSet for each size"):
        validation_set(Mine(7), 4, seed=0)
