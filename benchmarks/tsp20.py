"""Time to quality: train the TSP-20 preset from nothing for `seconds`, then the greedy gap on 1,000 Kool instances."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEFAULTS = {"seconds": 600, "seeds": "0,1,2", "out": "runs/benchmark_tsp20", "instances": 1000}


def main(seconds, seeds, out, instances) -> None:
    gaps = []
    for seed in seeds.split(","):
        run = f"{out}/seed{seed}"
        train = ["train.py", "problem=tsp", f"seed={seed}", f"time_limit={seconds}", f"run_dir={run}"]
        evaluate = ["evaluate.py", f"checkpoint={run}", "instances=kool/tsp20", f"num_instances={instances}"]
        evaluate += ["search=[greedy,gumbeldore]", "search.beam_width=32", "search.num_rounds=4", f"out_dir={run}/kool"]
        for command in (train, evaluate):
            print("python", *command, flush=True)
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
        methods = json.loads((ROOT / run / "kool" / "results.json").read_text())["methods"]
        gaps.append({name: result["mean_gap"] for name, result in methods.items()})
    for name in gaps[0]:
        values = [gap[name] for gap in gaps]
        spread = f"from {min(values):.3%} to {max(values):.3%}"
        print(f"{name}: median {statistics.median(values):.3%}, {spread}, seeds {seeds}")
