"""Small evaluations by the command, and what they leave behind."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import torch
from omegaconf import OmegaConf

import evaluate
from gumbeldore.evaluation.solved_sets import SolvedSet
from gumbeldore.instance_set import InstanceSet
from gumbeldore.runtime import checkpoint
from models.bq_cvrp import BQ as CVRPBQ
from models.bq_tsp import BQ
from models.job_shop import JobShop
from tests.helpers.commands import ROOT, compose, typed

DATA = ROOT / "tests" / "data"
NETWORKS = {"tsp": (BQ, "layers"), "cvrp": (CVRPBQ, "layers"), "jssp": (JobShop, "blocks")}


def untrained(folder):
    """The folder, with checkpoints of untrained policies by problem."""
    for problem, (network, depth) in NETWORKS.items():
        torch.manual_seed(0)
        words = [f"problem={problem}", "debug=fast", "model.width=16", "model.heads=2", f"model.{depth}=1"]
        cfg = compose("train", *words)
        policy = network(**{key: value for key, value in cfg.model.items() if key != "_target_"})
        with torch.no_grad():
            for parameter in policy.parameters():
                if parameter.dim() == 0:
                    parameter.fill_(0.5)  # of a ReZero layer: at 0 it would do nothing
        content = {"config": OmegaConf.to_container(cfg, resolve=True), "problem": problem}
        checkpoint.save(folder / f"{problem}.pt", {**content, "weights": policy.state_dict()})
    return folder


class Evaluation:
    """What an evaluation has left behind."""

    def __init__(self, folder: Path, output: str):
        self.folder = folder
        self.output = output
        self.methods = json.loads((folder / "results.json").read_text())["methods"]
        self.rows = self.table("results.csv")

    def table(self, name: str) -> list[dict[str, str]]:
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def of(self, method: str) -> list[dict[str, str]]:
        return [row for row in self.rows if row["method"] == method]


def evaluated(policy, tmp_path, *words, out="out"):
    asked = [word for word in words if word == "references=solver" or word.startswith("method=")]
    solver = ["solver.workers=0"] if "solver" in " ".join(asked) else []
    words = [f"checkpoint={policy}", f"out_dir={tmp_path / out}", "workers=0", *solver, *words]
    result = typed(evaluate, *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return Evaluation(tmp_path / out, result.stdout)


def rows_of(folder: Path) -> list[str]:
    """Method, instance, costs and solutions, as results.csv has them."""
    return (folder / "results.csv").read_text().splitlines()


def instance_set_of(costs, references, kinds, means):
    """Instances of such references, and solutions of such costs."""
    n, costs = len(costs), torch.tensor(costs)
    names, references = [f"n{i}" for i in range(n)], torch.tensor(references).double()
    instance_set = InstanceSet(names, None, None, None, references, kinds, means)
    solved = SolvedSet(torch.zeros(n, 3), costs.double(), torch.ones(n), costs[:, None], 1.0, 1)
    return instance_set, solved
