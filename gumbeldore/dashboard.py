"""The TensorBoard page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from torch.utils.tensorboard import SummaryWriter


class Dashboard:
    """Scalars by phase, pictures, the configuration as text and as hyperparameters.

    Arguments:
        epoch: of the checkpoint the run goes on from; later events of a killed run are hidden
    """

    def __init__(self, folder: Path, epoch: int):
        self.writer = SummaryWriter(str(folder), purge_step=epoch + 1 if epoch else None)

    def epoch(self, epoch: int, metrics: dict[str, float]) -> None:
        for tag, value in metrics.items():
            self.writer.add_scalar(tag, value, epoch)
        self.writer.flush()

    def figure(self, tag: str, figure: Any, epoch: int) -> None:
        """A matplotlib figure; None (a problem that cannot draw) is left out."""
        if figure is None:
            return
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        self.writer.add_image(tag, np.asarray(canvas.buffer_rgba())[..., :3], epoch, dataformats="HWC")

    def config(self, yaml: str) -> None:
        """The configuration as text."""
        self.writer.add_text("config", "\n".join(f"    {line}" for line in yaml.splitlines()), 0)

    def hparams(self, flat: dict[str, Any], best_cost: float) -> None:
        """The run as one row of the HPARAMS tab."""
        row = {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in flat.items()}
        self.writer.add_hparams(row, {"hparam/best_greedy_cost": best_cost}, run_name=".")

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *_) -> None:
        self.writer.close()
