"""Whether a rebuild keeps results: hashes of what shipped policies find with every method, and two such files compared.

`out=FILE` solves random instances with each of the `policies`, a folder of run directories, by every method that does
not stop by the clock, in float32 on one thread of this process. For weights of another commit, name its folder.
`before=FILE after=FILE` names what differs, is missing or is new, and ends with an error if there is any. Results are
equal bit for bit on one kind of CPU with one release of torch only.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.machine import ROOT, write
from gumbeldore import Problem, load_policy, methods, solve
from gumbeldore.evaluation.loading import LoadedPolicy, prefers_local_search
from gumbeldore.runtime.hardware import hardware

DEFAULTS = {"policies": "pretrained", "out": "", "before": "", "after": ""}
INSTANCES = 4  # in each set

SEARCH = {"beam_width": 4, "num_rounds": 2}
SHOPS: dict[str, dict[str, Any]] = {  # what `solve` is asked for
    "greedy": {"method": methods.Greedy()},
    "greedy, as evaluate.py decodes": {"method": "greedy"},
    "heuristic": {"method": "heuristic"},
    "theory": {"method": "theory", "beam_width": 4},
    **{name: {"method": name, "beam_width": 8} for name in ("beam", "diverse_beam")},
    **{name: {"method": name, **SEARCH} for name in ("sampling", "rejection", "wor", "tasar", "gumbeldore")},
    "gumbeldore, nucleus": {"method": "gumbeldore", **SEARCH, "top_p_start": 0.8, "temperature": 1},
}
ROUTING = {  # which alone has pieces and equivalent instances
    **SHOPS,
    "gumbeldore, equivalents": {"method": "gumbeldore", **SEARCH, "equivalents": 4},
    "reconstruct": {"method": methods.Reconstruct(iterations=8)},
    "reconstruct, start": {"method": methods.Reconstruct(methods.WithoutReplacement(4, 2), 8, piece_width=2)},
}

LOCAL_SEARCH = {  # where the problem has one
    "local_search": {"method": methods.LocalSearch(steps=2000)},
    "local_search, rules": {"method": methods.LocalSearch(methods.Rules(), steps=2000)},
}


class InstanceArrays(NamedTuple):
    """Instances of one kind, as `solve` takes them, with the values of the problem that they need."""

    arrays: dict[str, np.ndarray]  # [INSTANCES, ...]
    values: dict[str, Any] = {}


def instance_sets(problem: Problem, random: np.random.Generator) -> dict[str, InstanceArrays]:
    """The sets of a problem by name, of about 30 decisions."""
    if problem.name in ("tsp", "cvrp"):
        nodes = {"tsp": 32, "cvrp": 26}[problem.name]  # more than the 24 that `tsp_local` has in view
        load = {"demands": random.integers(1, 10, (INSTANCES, nodes)), "capacity": np.full(INSTANCES, 40)}
        load["demands"][:, 0] = 0
        load = load if problem.name == "cvrp" else {}
        places, matrix = random.random((INSTANCES, nodes, 2)), random.integers(1, 100, (INSTANCES, nodes, nodes))
        sets = {"plane": {"coords": places}, "matrix": {"coords": places, "distances": matrix}}
        return {name: InstanceArrays({**arrays, **load}) for name, arrays in sets.items()}
    shop = flexible_shop(random) if problem.name == "fjsp" else job_shop(random)
    due = {"due": random.integers(100, 400, (INSTANCES, 6)), "weight": random.integers(1, 5, (INSTANCES, 6))}
    shop |= due if problem.objective == "weighted_tardiness" else {}
    limits = {"release": (200, 6), "machine_release": (100, 5), "waits": (30, 6, 5)}
    extras = {name: random.integers(0, most, (INSTANCES, *shape)) for name, (most, *shape) in limits.items()}
    view = InstanceArrays(shop, {"window": 2, "jobs_in_view": 4})
    return {"classical": InstanceArrays(shop), "view": view, "general": InstanceArrays(general_shop(shop) | extras)}


def job_shop(random: np.random.Generator) -> dict[str, np.ndarray]:
    """6 jobs that visit each of 5 machines."""
    machines = random.permuted(np.tile(np.arange(5), (INSTANCES, 6, 1)), axis=2)
    return {"times": random.integers(1, 100, (INSTANCES, 6, 5)), "machines": machines}


def flexible_shop(random: np.random.Generator) -> dict[str, np.ndarray]:
    """6 jobs of 5 operations, each of which can go to the first of 5 machines in a random order, and to others."""
    able = random.permuted(random.random((INSTANCES, 6, 5, 5)) < [1.0, 0.4, 0.4, 0.4, 0.4], axis=3)
    return {"times": np.where(able, random.integers(1, 100, able.shape), -1)}


def general_shop(shop: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The shop with half of its jobs two operations shorter; of a job shop, the other jobs visit a machine again."""
    shop = {name: array.copy() for name, array in shop.items()}
    shop["times"][:, ::2, 3:] = -1
    if "machines" in shop:
        shop["times"][:, ::2, 3:], shop["machines"][:, ::2, 3:] = 0, -1
        shop["machines"][:, 1::2, 4] = shop["machines"][:, 1::2, 0]
    return shop


def results(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """By policy, set and method: hashes of actions and costs, and the costs themselves."""
    for path in sorted(folder.glob("*/best.pt")):
        start = time.perf_counter()
        for name, (arrays, values) in instance_sets(load_policy(path).problem, np.random.default_rng(0)).items():
            policy = load_policy(path, **values)
            every = ROUTING if policy.problem.name in ("tsp", "cvrp") else SHOPS
            every = {**every, **LOCAL_SEARCH} if prefers_local_search(policy.problem) else every
            for method, asked in every.items():
                yield f"{path.parent.name}, {name}: {method}", entry(policy, {**asked, **arrays})
        print(f"{path.parent.name}: {time.perf_counter() - start:.0f} s", flush=True)


def entry(policy: LoadedPolicy, asked: dict[str, Any]) -> dict[str, Any]:
    """What `solve` finds, as `results` tells it."""
    found = solve(policy, **asked, device="cpu", precision="float32")
    actions = np.stack([each.actions.numpy() for each in found]).astype(np.int64)
    costs = np.array([each.cost for each in found], dtype=np.float64)
    hashes = [hashlib.sha256(array.tobytes()).hexdigest() for array in (actions, costs)]
    return dict(zip(("actions", "costs", "values"), [*hashes, costs.tolist()], strict=True))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """A line for each entry of two files that is not the same."""
    lines = []
    for name in dict.fromkeys([*before, *after]):
        pair = before.get(name), after.get(name)
        if pair[0] != pair[1]:
            what = "is new" if pair[0] is None else "is missing" if pair[1] is None else "differs"
            costs = " -> ".join(str(each["values"]) for each in pair if each is not None)
            equal = " (other actions, equal costs)" if all(pair) and pair[0]["costs"] == pair[1]["costs"] else ""
            lines.append(f"{name} {what}{equal}: {costs}")
    return lines


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Print how two files differ. Raises ValueError if they do."""
    for name in ("cpu", "torch", "numpy"):
        if before[name] != after[name]:
            print(f"{name} was {before[name]}, is {after[name]}: results need not be equal")
    lines = differences(before["results"], after["results"])
    print("\n".join([f"commits {before['commit']} and {after['commit']}", *lines]))
    if lines:
        raise ValueError(f"{len(lines)} of {len(before['results'])} results are not the same")
    print(f"all {len(after['results'])} results are the same")


def versions() -> dict[str, str]:
    """What results depend on."""
    describe = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    model = hardware(torch.device("cpu")).rpartition(",")[0]  # without the number of cores
    cpu = f"{model}, {torch.backends.cpu.get_cpu_capability()}"
    return {"cpu": cpu, "torch": torch.__version__, "numpy": np.__version__, "commit": commit}


def main(policies, out, before, after) -> None:
    if bool(out) == bool(before or after) or bool(before) != bool(after):
        raise ValueError("same needs out=, or before= and after=")
    if not out:
        return compare(*(json.loads(Path(path).read_text()) for path in (before, after)))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the random matrices, which are unlike their maps
    found = dict(results(Path(policies)))
    if not found:
        raise ValueError(f"policies={policies}: there is no */best.pt")
    write(Path(out), {**versions(), "results": found})
