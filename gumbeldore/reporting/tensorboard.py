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

# "Is my training going well?": TensorBoard sorts groups by name, so these cards are the first ones on its page. A run
# has at most six of them; `best_*` and `new_best` are those of active search and of a pool alone.
PROGRESS = (
    *("quality/greedy_gap", "quality/greedy_cost", "quality/best_gap", "quality/best_cost"),
    *("sampling/improvement_over_greedy", "sampling/improved_share", "sampling/new_best"),
    *("training/loss", "usage/epoch_seconds"),
)
CONSTANT = ("sampling/solutions",)  # in most trainings: a card would be a flat line
TOTALS = [f"usage/totals/{name}" for name in ("seconds", "batches", "solutions")]


def tag_of(metric: str) -> str:
    """The tag of a metric's card."""
    return f"progress/{metric.rsplit('/', 1)[1]}" if metric in PROGRESS else metric


class Dashboard:
    """Scalars, pictures, the configuration as text and as hyperparameters.

    TensorBoard names a run by the folder of its event files, so these lie in the run directory itself.

    Arguments:
        folder: the run directory
        epoch: of the checkpoint the run goes on from; later events of a killed run are hidden
    """

    def __init__(self, folder: Path, epoch: int):
        self.folder = folder
        self.writer = SummaryWriter(str(folder), purge_step=epoch + 1 if epoch else None)

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        for name, value in {**metrics, **_memory()}.items():
            if name not in CONSTANT:
                self.writer.add_scalar(tag_of(name), value, epoch)
        self.writer.flush()

    def beside(self, name: str, curve: list[dict[str, float]]) -> None:
        """Draw the metrics of another training, epoch by epoch, beside this run's, as the run `<folder>/<name>`."""
        with SummaryWriter(str(self.folder / name)) as writer:
            for metrics in curve:
                for metric in metrics.keys() - {"epoch"}:
                    writer.add_scalar(tag_of(metric), metrics[metric], int(metrics["epoch"]))

    def figure(self, tag: str, figure: Any, epoch: int) -> None:
        """A matplotlib figure; None (a problem that cannot draw) is left out."""
        if figure is None:
            return
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        self.writer.add_image(tag, np.asarray(canvas.buffer_rgba())[..., :3], epoch, dataformats="HWC")
        self.writer.flush()

    def config(self, yaml: str) -> None:
        """The configuration as text."""
        self.writer.add_text("config", "\n".join(f"    {line}" for line in yaml.splitlines()), 0)

    def hyperparameters(self, values: dict[str, Any], given: bool) -> None:
        """The run's row of the HPARAMS page, with the last values of some metrics; a continued run has it already.

        Arguments:
            given: whether it is the best solutions of given instances that count, or a policy's greedy ones
        """
        best = "quality/best" if given else "quality/best_greedy"
        plain = {key: x if isinstance(x, bool | int | float | str) else str(x) for key, x in values.items()}
        # SummaryWriter.add_hparams would also write scalars: cards of one point each.
        columns, start, _ = hparams(plain, dict.fromkeys(map(tag_of, [f"{best}_gap", f"{best}_cost", *TOTALS])))
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
