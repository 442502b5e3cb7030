"""The TensorBoard page of a run: every chart has its data, every run its row of hyperparameters."""

from __future__ import annotations

from pathlib import Path

import hydra
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

import train
from gumbeldore.dashboard import LAYOUT

CONFIGS = Path(__file__).parent.parent / "configs"
CHARTED = [tag for charts in LAYOUT.values() for _, tags in charts.values() for tag in tags]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """What a short run of the TSP preset's size leaves, by way of its configuration."""
    folder = tmp_path_factory.mktemp("dashboard") / "run"
    words = ["debug=fast", "problem.num_nodes=20", "workers=0", f"run_dir={folder}", "train.greedy_too=true"]
    with hydra.initialize_config_dir(str(CONFIGS), version_base="1.3"):
        metrics = train.train(hydra.compose("train", words))
    found = EventAccumulator(str(folder / "tensorboard"))
    found.Reload()
    return found, metrics


def test_every_chart_has_its_scalars_and_every_scalar_its_values(events):
    found, metrics = events
    logged = set(found.Tags()["scalars"])
    assert set(CHARTED) - logged == {"system/gpu_memory_gib"}  # of a machine with a GPU
    assert set(metrics) <= logged
    for tag, value in metrics.items():
        assert found.Scalars(tag)[-1].value == pytest.approx(value, rel=1e-6)


def test_charts_are_grouped_by_question(events):
    found, _ = events
    layout = layout_pb2.Layout.FromString(found.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    assert [category.title for category in layout.category] == ["quality", "sampling", "training", "system"]
    for category in layout.category:
        assert {chart.title: list(chart.multiline.tag) for chart in category.chart} == {
            title: tags for title, (_, tags) in LAYOUT[category.title].items()
        }


def test_runs_can_be_compared_by_hyperparameters_and_outcome(events):
    found, metrics = events
    data = found.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = plugin_data_pb2.HParamsPluginData.FromString(data).session_start_info
    assert start.hparams["seed"].number_value == 0 and start.hparams["problem.num_nodes"].number_value == 20
    best = found.Scalars("hparam/best_greedy_cost")[-1].value
    assert best == pytest.approx(metrics["quality/best_greedy_cost"])
    assert found.Scalars("hparam/best_greedy_gap")[-1].value == pytest.approx(metrics["quality/best_greedy_gap"])


def test_pictures_show_solutions(events):
    found, _ = events
    picture = found.Images("validation/solutions")[-1]
    assert picture.width > 600 and picture.height > 600 and picture.encoded_image_string.startswith(b"\x89PNG")
