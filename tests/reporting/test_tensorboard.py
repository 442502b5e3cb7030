"""The TensorBoard page of a run: its name, the order of its groups, charts with their data, its hyperparameters."""

from __future__ import annotations

from pathlib import Path

import hydra
import pytest
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

import train
from gumbeldore.reporting.tensorboard import LAYOUT

CONFIGS = Path(__file__).parents[2] / "configs"
NAME = "tsp/2026-01-31_12-00-00"
CHARTED = [tag for charts in LAYOUT.values() for tags in charts.values() for tag in tags]


def hparams_of(found, part):
    data = found.SummaryMetadata(f"_hparams_/{part}").plugin_data.content
    return getattr(plugin_data_pb2.HParamsPluginData.FromString(data), part)


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """What TensorBoard reads of a folder with one short run of the TSP preset's size, in a folder of its own."""
    runs = tmp_path_factory.mktemp("runs")
    words = ["debug=fast", "problem.num_nodes=20", "workers=0", f"run_dir={runs / NAME}"]
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        metrics = train.train(hydra.compose("train", words))
    found = EventMultiplexer().AddRunsFromDirectory(str(runs))
    found.Reload()
    assert list(found.Runs()) == [NAME]
    return found.GetAccumulator(NAME), metrics


def test_groups_are_in_the_order_of_a_readers_questions(events):
    """TensorBoard sorts them by name."""
    found, _ = events
    groups = sorted({tag.split("/")[0] for tag in found.Tags()["scalars"]})
    assert groups == ["quality", "sampling", "training", "usage"]


def test_every_chart_has_its_scalars_and_every_scalar_its_values(events):
    found, metrics = events
    logged = set(found.Tags()["scalars"])
    assert set(CHARTED) - logged == {"usage/gpu_memory_gib", "training/out_of_view"}  # of a GPU, and of problem.nearest
    for name, value in metrics.items():
        assert found.Scalars(name)[-1].value == pytest.approx(value, rel=1e-6)


def test_charts_are_grouped_by_question(events):
    found, _ = events
    layout = layout_pb2.Layout.FromString(found.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    assert [category.title for category in layout.category] == ["quality", "sampling", "training", "usage"]
    for category in layout.category:
        assert {chart.title: list(chart.multiline.tag) for chart in category.chart} == LAYOUT[category.title]


def test_runs_can_be_compared_by_hyperparameters_and_outcome(events):
    """The columns of the HPARAMS page are last values of charted scalars, so they add no charts of one point."""
    found, _ = events
    start = hparams_of(found, "session_start_info")
    assert start.hparams["seed"].number_value == 0 and start.hparams["problem.num_nodes"].number_value == 20
    columns = [column.name.tag for column in hparams_of(found, "experiment").metric_infos]
    assert {"quality/best_greedy_cost", "quality/best_greedy_gap", "usage/totals/seconds"} <= set(columns)
    assert set(columns) <= set(found.Tags()["scalars"])
    assert all(len(found.Scalars(tag)) == 2 for tag in columns)  # one value per epoch


def test_pictures_show_solutions(events):
    found, _ = events
    picture = found.Images("validation/solutions")[-1]
    assert picture.width > 600 and picture.height > 600 and picture.encoded_image_string.startswith(b"\x89PNG")
