"""Seconds of an epoch of the paper's training (or a share of it): sampling, training, validation.

It runs `train.py` itself, on the GPU if there is one; `words` are more of its settings (`words="compile=true seed=1"`).
The first epoch, in which everything is used for the first time, does not count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import ROOT, configuration, write

DEFAULTS = {"experiment": "tsp100", "recipe": "paper", "epochs": 3, "share": 1.0, "words": "", "out": ""}
SIZES = ("instances_per_epoch", "batches_per_epoch", "validation_instances")


def main(experiment, recipe, epochs, share, words, out) -> None:
    chosen = [f"experiment={experiment}", f"recipe={recipe}"]
    whole = configuration(*chosen).train
    sizes = [f"train.{name}={max(1, round(share * whole[name]))}" for name in SIZES]
    settings = [*chosen, f"train.epochs={1 + epochs}", *sizes, *words.split()]
    print("python train.py", *settings, flush=True)
    with TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        subprocess.run([sys.executable, "train.py", *settings, f"run_dir={run}"], cwd=ROOT, check=True)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][1:]
    phases = (f"usage/seconds/{phase}" for phase in ("sampling", "training", "validation"))
    names = (*phases, "sampling/solutions_per_second")
    figures = {name: statistics.median(line[name] for line in lines) for name in names}
    for name, figure in figures.items():
        print(f"{name:32}{figure:12,.1f}")
    if out:
        write(Path(out), {"experiment": experiment, "recipe": recipe, "share": share, "words": words, **figures})
