"""Seconds of an epoch of a recipe of the paper (or a share of it): sampling, training, validation.

It runs `train.py` itself, on the GPU if there is one. `compile=1` compiles the network's layers. The first epoch, in
which everything is used for the first time, does not count.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import configuration, write

ROOT = Path(__file__).parent.parent
DEFAULTS = {"experiment": "tsp100", "epochs": 3, "share": 1.0, "compile": 0, "out": ""}
SIZES = ("instances_per_epoch", "batches_per_epoch", "validation_instances")


def main(experiment, epochs, share, compile, out) -> None:
    recipe = configuration(f"experiment={experiment}").train
    words = [f"train.{name}={max(1, round(share * recipe[name]))}" for name in SIZES]
    words = [
        f"experiment={experiment}",
        f"train.epochs={1 + epochs}",
        *words,
        f"compile={'true' if compile else 'false'}",
    ]
    print("python train.py", *words, flush=True)
    with TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        subprocess.run([sys.executable, "train.py", *words, f"run_dir={run}"], cwd=ROOT, check=True)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][1:]
    names = ("seconds/sampling", "seconds/training", "seconds/validation", "sampling/solutions_per_second")
    figures = {name: statistics.median(line[name] for line in lines) for name in names}
    for name, figure in figures.items():
        print(f"{name:32}{figure:12,.1f}")
    if out:
        write(Path(out), {"experiment": experiment, "share": share, **figures})
