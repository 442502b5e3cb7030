"""Time to quality: train a problem's preset from nothing for `seconds`, then its gaps on held-out instances."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from benchmarks.machine import ROOT

DEFAULTS = {"problem": "tsp", "seconds": 600, "seeds": "0,1,2", "experts": "", "out": ""}
HELD_OUT = {
    "tsp": ["instances=kool/tsp20", "num_instances=1000", "method=[greedy,gumbeldore]"],
    "cvrp": ["instances=kool/cvrp20", "num_instances=1000", "method=[greedy,gumbeldore]"],
    "jssp": ["instances=l2d/6x6", "method=[greedy,gumbeldore,heuristic]"],
}


def main(problem, seconds, seeds, experts, out) -> None:
    if problem not in HELD_OUT:
        raise ValueError(f"problem must be one of {', '.join(HELD_OUT)}, got {problem!r}")
    gaps: list[dict[str, float]] = []
    for seed in seeds.split(","):
        run = f"{out or 'runs/benchmark_' + problem + ('_supervised' if experts else '')}/seed{seed}"
        train = ["train.py", f"problem={problem}", f"seed={seed}", f"time_limit={seconds}", f"run_dir={run}"]
        if experts:
            train += ["train=supervised", f"train.experts={experts}"]
        evaluate = ["evaluate.py", f"checkpoint={run}", *HELD_OUT[problem]]
        evaluate += ["search.beam_width=32", "search.num_rounds=4", f"out_dir={run}/held_out"]
        for command in (train, evaluate):
            print("python", *command, flush=True)
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
        methods = json.loads((ROOT / run / "held_out" / "results.json").read_text())["methods"]
        gaps.append({name: result["mean_gap"] for name, result in methods.items()})
    for name in gaps[0]:
        values = [gap[name] for gap in gaps]
        spread = f"from {min(values):.3%} to {max(values):.3%}"
        print(f"{name}: median {statistics.median(values):.3%}, {spread}, seeds {seeds}")
