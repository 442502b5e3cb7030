"""The TensorBoard page of a run: its name, its first cards, its groups, its hyperparameters, the preset's curve."""

from __future__ import annotations

import json

import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import plugin_data_pb2

import train
from gumbeldore.cli import training
from gumbeldore.reporting.tensorboard import CONSTANT, tag_of
from tests.helpers.commands import CONFIGS, compose, configured, done
from tests.helpers.runs import first_cards

NAME = "tsp/2026-01-31_12-00-00"


def hparams_of(found, part):
    data = found.SummaryMetadata(f"_hparams_/{part}").plugin_data.content
    return getattr(plugin_data_pb2.HParamsPluginData.FromString(data), part)


def trained(folder, *words):
    return train.train(compose("train", *words, "workers=0", f"run_dir={folder}"))


def runs_of(folder):
    found = EventMultiplexer().AddRunsFromDirectory(str(folder))
    found.Reload()
    return found


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """What TensorBoard reads of a folder with one short run of the TSP preset's size, in a folder of its own."""
    runs = tmp_path_factory.mktemp("runs")
    metrics = trained(runs / NAME, "debug=fast", "problem.num_nodes=20")
    found = runs_of(runs)
    assert list(found.Runs()) == [NAME]
    return found.GetAccumulator(NAME), metrics


def test_the_first_cards_tell_whether_it_goes_well(events):
    """TensorBoard sorts groups by name; six cards at most are in the first one."""
    found, _ = events
    tags = found.Tags()["scalars"]
    assert sorted({tag.split("/")[0] for tag in tags}) == ["progress", "quality", "sampling", "training", "usage"]
    cards = {"greedy_gap", "greedy_cost", "improvement_over_greedy", "improved_share", "loss", "epoch_seconds"}
    assert first_cards(tags) == cards


def test_every_metric_that_changes_is_a_card(events):
    found, metrics = events
    for name, value in metrics.items():
        if name not in CONSTANT:
            assert found.Scalars(tag_of(name))[-1].value == pytest.approx(value, rel=1e-6)
    assert metrics.keys() >= set(CONSTANT) and not set(CONSTANT) & set(found.Tags()["scalars"])


def test_runs_can_be_compared_by_hyperparameters_and_outcome(events):
    """The columns of the HPARAMS page are last values of scalars, so they add no cards of one point."""
    found, _ = events
    start = hparams_of(found, "session_start_info")
    assert start.hparams["seed"].number_value == 0 and len(start.hparams) == 1  # no words were typed here
    columns = [column.name.tag for column in hparams_of(found, "experiment").metric_infos]
    assert columns[:2] == ["quality/best_greedy_gap", "quality/best_greedy_cost"]
    assert set(columns) <= set(found.Tags()["scalars"])
    assert all(len(found.Scalars(tag)) == 2 for tag in columns)  # one value per epoch


def test_a_continued_run_keeps_its_one_row_of_hyperparameters(tmp_path):
    """Each event file may add a row; the words of the command that continues are not those of the training."""
    done(train, "debug=fast", "problem.num_nodes=5", "workers=0", "run_dir=a", "time_limit=1e-9", cwd=tmp_path)
    done(train, "resume=a", "time_limit=null", cwd=tmp_path)
    rows = [
        summary.metadata.plugin_data.content
        for file in sorted((tmp_path / "a").glob("events*"))
        for event in EventFileLoader(str(file)).Load()
        for summary in event.summary.value
        if summary.tag == "_hparams_/session_start_info"
    ]
    assert len(list((tmp_path / "a").glob("events*"))) == 2 and len(rows) == 1


def test_the_hyperparameters_are_what_was_typed():
    """TensorBoard sorts them by name and shows the first few, so there are no others."""
    config = configured("train", "problem=cvrp", "search.step_size=1", "run_dir=a", "train.epochs=2")
    assert config.hyperparameters() == {"problem": "cvrp", "seed": 0, "search.step_size": 1, "train.epochs": 2}


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ([], None),
        (["problem=tsp"], "tsp"),
        (["problem=cvrp", "seed=1", "run_dir=a", "workers=0"], "cvrp"),
        (["problem=tsp", "experiment=demo"], "demo"),
        (["experiment=demo", "recipe=paper"], None),
        (["problem=cvrp", "train.epochs=3"], None),
        (["init=tsp20"], None),
    ],
)
def test_which_preset_is_trained_as_it_stands(words, preset):
    assert configured("train", *words).preset() == preset


def test_the_curve_of_the_preset_is_drawn_beside_the_run(tmp_path, monkeypatch):
    """As a run of its own, with the tags of the run's cards."""
    (tmp_path / "tsp.jsonl").write_text('{"epoch": 1, "quality/greedy_gap": 0.5}\n{"epoch": 2, "training/loss": 2}\n')
    monkeypatch.setattr(training, "CURVES", tmp_path)
    monkeypatch.setattr("gumbeldore.cli.configuration.Configuration.preset", lambda self: "tsp")
    trained(tmp_path / "runs/a", "debug=fast", "problem.num_nodes=5")
    found = runs_of(tmp_path / "runs")
    assert sorted(found.Runs()) == ["a", "a/preset"]
    (gap,) = found.GetAccumulator("a/preset").Scalars("progress/greedy_gap")
    (loss,) = found.GetAccumulator("a/preset").Scalars("progress/loss")
    assert (gap.step, gap.value, loss.step, loss.value) == (1, 0.5, 2, 2)


@pytest.mark.parametrize("path", sorted(training.CURVES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_shipped_curves_are_those_of_presets(path):
    """One line for each epoch of the preset; the gap falls."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    word = f"experiment={path.stem}" if (CONFIGS / f"experiment/{path.stem}.yaml").exists() else f"problem={path.stem}"
    assert [line["epoch"] for line in lines] == list(range(1, configured("train", word).cfg.train.epochs + 1))
    assert lines[-1]["quality/greedy_gap"] < lines[0]["quality/greedy_gap"] / 2


def test_pictures_show_solutions(events):
    found, _ = events
    picture = found.Images("validation/solutions")[-1]
    assert picture.width > 600 and picture.height > 600 and picture.encoded_image_string.startswith(b"\x89PNG")
