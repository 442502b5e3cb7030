"""Quality of a preset: train it from nothing with several seeds, then the gaps on held-out instances.

A training takes as long as its preset, or `seconds` at most; one that is cut short ends with a high learning rate.
`words` are more settings of train.py, alternatives with a | between them: `words="recipe=fast | recipe=paper"` trains
both with each of the seeds. What was interrupted goes on, but a training of so many `seconds`.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
import subprocess
import sys

from benchmarks.machine import ROOT

DEFAULTS = {"problem": "tsp", "seconds": 0, "seeds": "0,1,2", "words": "", "experts": "", "out": ""}
HELD_OUT = {
    "tsp": ["instances=kool/tsp20", "num_instances=1000", "method=[greedy,gumbeldore]"],
    "cvrp": ["instances=kool/cvrp20", "num_instances=1000", "method=[greedy,gumbeldore]"],
    "jssp": ["instances=l2d/6x6", "method=[greedy,gumbeldore,heuristic]"],
}


def main(problem, seconds, seeds, words, experts, out) -> None:
    if problem not in HELD_OUT:
        raise ValueError(f"problem must be one of {', '.join(HELD_OUT)}, got {problem!r}")
    folder = out or f"runs/benchmark_{problem}{'_supervised' if experts else ''}"
    trained = ["train.py", f"problem={problem}", *([f"time_limit={seconds}"] if seconds else [])]
    trained += ["train=supervised", f"train.experts={experts}"] if experts else []
    gaps: dict[str, list[dict[str, float]]] = {alternative.strip(): [] for alternative in words.split("|")}
    for alternative in gaps:  # a misspelt key of the last is found before the first is trained
        command = [sys.executable, *trained, *alternative.split(), "--cfg", "job"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for seed, alternative in itertools.product(seeds.split(","), gaps):
        run = "/".join(filter(None, (folder, re.sub(r"[^\w.-]+", "_", alternative), f"seed{seed}")))
        train = [*trained, f"seed={seed}", *alternative.split(), f"run_dir={run}"]
        if (ROOT / run / "config.yaml").exists() and not seconds:
            train = ["train.py", f"resume={run}"]
        evaluate = ["evaluate.py", f"checkpoint={run}", *HELD_OUT[problem], "resume=true"]
        evaluate += ["search.beam_width=32", "search.num_rounds=4", "search.temperature=1", "search.top_p_start=0.8"]
        evaluate += [f"out_dir={run}/held_out"]
        evaluated = (ROOT / run / "held_out").exists()  # so that the training is complete
        for command in (evaluate,) if evaluated else (train, evaluate):
            print("python", *command, flush=True)
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
        methods = json.loads((ROOT / run / "held_out" / "results.json").read_text())["methods"]
        gaps[alternative].append({name: result["mean_gap"] for name, result in methods.items()})
    for alternative, found in gaps.items():
        for name in found[0]:
            values = [gap[name] for gap in found]
            spread = f"from {min(values):.3%} to {max(values):.3%}"
            print(f"{alternative} {name}: median {statistics.median(values):.3%}, {spread}, seeds {seeds}".lstrip())
