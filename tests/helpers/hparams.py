"""What TensorBoard reads as the hyperparameters of a run."""

from __future__ import annotations

from tensorboard.plugins.hparams import plugin_data_pb2


def hparams_of(found, part):
    data = found.SummaryMetadata(f"_hparams_/{part}").plugin_data.content
    return getattr(plugin_data_pb2.HParamsPluginData.FromString(data), part)
