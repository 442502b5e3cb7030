"""Stand-ins for the authors' published checkpoints: tests/data/published, imported."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gumbeldore.cli.import_checkpoint import imported_checkpoint
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.runtime.building import build
from problems.cvrp.instances import Instance as CVRPInstance
from problems.cvrp.instances import encode
from problems.jssp.instances import job_shop
from problems.tsp.instances import Instance as TSPInstance

FOLDER = Path(__file__).parents[1] / "data" / "published"


class StandIn(NamedTuple):
    problem: str
    model: str
    heads: int


STAND_INS = {
    "tsp_bq": StandIn("tsp", "bq", 2),
    "tsp_lehd": StandIn("tsp", "lehd", 2),
    "cvrp_bq": StandIn("cvrp", "bq_cvrp", 3),
    "cvrp_lehd": StandIn("cvrp", "lehd_cvrp", 3),
    "jssp_transformer": StandIn("jssp", "job_shop", 4),
}


@cache
def content(name: str) -> dict:
    """Our checkpoint of a stand-in."""
    return imported_checkpoint(FOLDER / f"{name}.pt", *STAND_INS[name])


def policy_of(name: str) -> Policy:
    policy = build(content(name)["config"]["model"], "model", Policy).eval()
    policy.load_state_dict(content(name)["weights"])
    return policy


def problem_of(name: str) -> Problem:
    return build(content(name)["config"]["problem"], "problem", Problem)


class Recorded(NamedTuple):
    """What the authors' code computes with a stand-in."""

    instance: NamedTuple  # [n, ...]
    actions: Tensor  # [n, T] a random solution of each
    cost: Tensor  # [n] of the solutions
    log_probs: Tensor  # [n, t, A] before each of the first t decisions of the solutions


def recorded(name: str) -> list[Recorded]:
    """The instances of each size, in the numbers of our problems."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    if name.startswith("tsp"):
        instance = TSPInstance(arrays["coords"].float())
        return [Recorded(instance, arrays["tour"][:, 1:], arrays["tour_length"], arrays["log_probs"])]
    if name.startswith("cvrp"):
        instance = CVRPInstance(arrays["coords"].float(), arrays["demands"], arrays["capacity"])
        actions = encode(arrays["customers"], arrays["via_depot"].bool(), arrays["customers"].shape[1])
        log_probs = arrays["log_probs"][:, :, 1:].mT.flatten(2)  # without the depot; directly, then via the depot
        return [Recorded(instance, actions, arrays["tour_length"], log_probs)]
    return [
        Recorded(
            job_shop(arrays[f"{size}_proc_times"].float(), arrays[f"{size}_machines"]),
            *(arrays[f"{size}_{key}"] for key in ("job_sequence", "makespan", "log_probs")),
        )
        for size in ("j4m3", "j3m5")
    ]
