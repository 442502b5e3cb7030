"""The TensorBoard page of a run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from gumbeldore.runtime.memory import peak_memory

# TensorBoard sorts the groups of tags by name: quality, sampling, training, then usage (time and memory).

# The columns of the HPARAMS page that tell runs apart: tags of scalars, of which the page takes the last values.
TOTALS = [f"usage/totals/{name}" for name in ("seconds", "batches", "solutions")]
OUTCOME = ["quality/best_greedy_cost", "quality/best_greedy_gap", *TOTALS]

# The page CUSTOM SCALARS: charts by question, each with the tags that answer it together.
LAYOUT = {
    "quality": {
        "optimality gap, greedy, validation": ["quality/greedy_gap", "quality/best_greedy_gap"],
        "cost, greedy, validation": ["quality/greedy_cost", "quality/best_greedy_cost"],
        "improvement of the best sampled over greedy": ["sampling/improvement_over_greedy"],
    },
    "sampling": {
        "cost of the training instances": ["sampling/best_cost", "sampling/mean_cost", "sampling/greedy_cost"],
        "distinct solutions, share": ["sampling/distinct_share"],
        "solutions per second": ["sampling/solutions_per_second"],
    },
    "training": {
        "loss": ["training/loss", "training/auxiliary_loss"],
        "decisions like the expert's, share": ["training/accuracy", "training/out_of_view"],
        "gradient norm": ["training/gradient_norm"],
        "learning rate": ["training/learning_rate"],
        "experts in the dataset": ["training/dataset_size"],
    },
    "usage": {
        "seconds per epoch": [f"usage/seconds/{phase}" for phase in ("sampling", "training", "validation")],
        "memory of this process, GiB": ["usage/memory_gib", "usage/gpu_memory_gib"],
        "seconds since the start": ["usage/totals/seconds"],
    },
}
# Both for active search, whose instances are given.
OUTCOME_OF_GIVEN = ["quality/best_cost", "quality/best_gap", *TOTALS]
OF_GIVEN = {
    **LAYOUT,
    "quality": {
        "optimality gap, best solutions": ["quality/best_gap"],
        "cost, best solutions": ["quality/best_cost"],
    },
    "sampling": {
        "cost, solutions of the epoch": ["sampling/best_cost", "sampling/greedy_cost"],
        "instances with a better solution than before": ["sampling/new_best"],
        "solutions per second": ["sampling/solutions_per_second"],
    },
}
# For a pool of experts, whose instances are random.
OF_POOL = {
    **LAYOUT,
    "sampling": {"cost, best solutions": ["quality/best_cost"], **OF_GIVEN["sampling"]},
}


class Dashboard:
    """Scalars by phase, charts of them by question, pictures, the configuration as text and as hyperparameters.

    TensorBoard names a run by the folder of its event files, so these lie in the run directory itself.

    Arguments:
        folder: the run directory
        epoch: of the checkpoint the run goes on from; later events of a killed run are hidden
        layout: of the page CUSTOM SCALARS; that of active search also decides the columns of the HPARAMS page
    """

    def __init__(self, folder: Path, epoch: int, layout: dict[str, dict[str, list[str]]] = LAYOUT):
        self.writer = SummaryWriter(str(folder), purge_step=epoch + 1 if epoch else None)
        self.outcome = OUTCOME_OF_GIVEN if layout is OF_GIVEN else OUTCOME
        charts = {group: {title: ["Multiline", tags] for title, tags in layout[group].items()} for group in layout}
        self.writer.add_custom_scalars(charts)

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        for name, value in {**metrics, **_memory()}.items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def figure(self, tag: str, figure: Any, epoch: int) -> None:
        """A matplotlib figure; None (a problem that cannot draw) is left out."""
        if figure is None:
            return
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        self.writer.add_image(tag, np.asarray(canvas.buffer_rgba())[..., :3], epoch, dataformats="HWC")
        self.writer.flush()

    def config(self, yaml: str, flat: dict[str, Any]) -> None:
        """The configuration as text, and as the run's row of the HPARAMS page."""
        self.writer.add_text("config", "\n".join(f"    {line}" for line in yaml.splitlines()), 0)
        row = {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in flat.items()}
        # SummaryWriter.add_hparams would also write scalars: cards of one point each.
        columns, start, _ = hparams(row, dict.fromkeys(self.outcome))
        for summary in (columns, start):
            self.writer._get_file_writer().add_summary(summary)

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_) -> None:
        with contextlib.suppress(OSError):  # whatever was written has been flushed, or has failed, already
            self.writer.close()


def _memory() -> dict[str, float]:
    """The most memory this process has held so far, in GiB, and of its GPU's."""
    found = {"usage/memory_gib": peak_memory() / 2**30}
    if torch.cuda.is_available():
        found["usage/gpu_memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return found
