"""Where and how a training runs."""

from __future__ import annotations

from typing import NamedTuple

import torch

from gumbeldore.runtime.stopping import Progress, Stop, never, silent
from gumbeldore.training.ranks import SINGLE_PROCESS, Ranks
from gumbeldore.training.recorder import Recorder, Silent


class Execution(NamedTuple):
    """What a training needs besides its algorithm."""

    seed: int = 0  # of every random number, together with its purpose and the epoch
    recorder: Recorder = Silent()  # writes checkpoints and metrics
    device: torch.device = torch.device("cpu")  # of the policy that is trained
    precision: str = "float32"  # resolved: float32 or bf16
    ranks: Ranks = SINGLE_PROCESS  # the processes that share each batch
    progress: Progress = silent
    stop: Stop = never
