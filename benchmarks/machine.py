"""Matrix peak of this machine, in float32 and in the precision that `auto` chooses: what other figures are held to."""

from __future__ import annotations

import json
import math
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from gumbeldore.cli.configuration import Configuration
from gumbeldore.interfaces import Policy, Problem
from gumbeldore.parallel.devices import resolve_device
from gumbeldore.runtime.files import write_text
from gumbeldore.runtime.hardware import hardware
from gumbeldore.runtime.precision import dtype_of, resolve_precision
from problems.cvrp import CVRP
from problems.jssp import JSSP
from problems.tsp import TSP

ROOT = Path(__file__).parent.parent
DEFAULTS = {"threads": torch.get_num_threads(), "device": "cpu"}
PAPER = {"tsp": "paper_tsp100", "cvrp": "paper_cvrp100", "jssp": "paper_jssp"}  # experiments with the paper's networks


def seconds_at(device: torch.device) -> float:
    """The time when all that was asked of a device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def matrix_peak(precision: str, device: torch.device) -> float:
    """GFLOPS of a product of two square matrices, the median of five; two before them warm up."""
    size = 8192 if device.type == "cuda" else 2048
    a, b = torch.randn(2, size, size, device=device).to(dtype_of(precision))
    seconds = []
    for _ in range(7):
        start = seconds_at(device)
        a @ b
        seconds.append(seconds_at(device) - start)
    return 2 * size**3 / statistics.median(seconds[2:]) / 1e9


def precisions(precision: str, device: torch.device) -> list[str]:
    """Those whose peaks tell something: float32 and the one asked for. Emulated bf16 would take minutes a product."""
    return list(dict.fromkeys(("float32", resolve_precision(precision, device))))


def turns(repeats: int, seconds: float) -> Iterator[int]:
    """0, 1, ... up to `repeats`; after the first, none begins that would probably end later than `seconds` from now."""
    start = time.perf_counter()
    for turn in range(repeats):
        took = time.perf_counter() - start
        if turn and took * (turn + 1) / turn > seconds:
            return
        yield turn


def numbers(key: str, typed: str, kind: type) -> list:
    """The numbers that a value such as 1,10,100 lists, each once. Raises ValueError unless they are positive."""
    try:
        found = [kind(word) for word in typed.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < number < math.inf for number in found):
        raise ValueError(
            f"{key} must be {'whole' if kind is int else 'finite'} numbers above 0, such as 1,10,100, got {typed!r}"
        )
    return list(dict.fromkeys(found))


def problem_and_step_size(name: str) -> tuple[Problem, float]:
    """A problem by a name such as tsp100 or jssp10x10, and the step size of its preset."""
    known = re.fullmatch(r"(tsp|cvrp)(\d+)|(jssp)(\d+x\d+)", name)
    if known is None:
        raise ValueError(f"a case is called like tsp100, cvrp50 or jssp10x10, not {name!r}")
    kind, numbers = filter(None, known.groups())
    size = [int(number) for number in numbers.split("x")]
    capacity = {20: 30, 50: 40}.get(size[0], 50)
    make = {
        "tsp": lambda: TSP(size[0]),
        "cvrp": lambda: CVRP(size[0], [capacity, capacity]),
        "jssp": lambda: JSSP([size], [size]),
    }
    return make[kind](), Configuration.of_training(f"problem={kind}").cfg.search.step_size


def flop_counter() -> FlopCounterMode:
    """torch's counter of operations, with the fused attention on CPUs, which torch 2.13 leaves out."""

    def attention(query: torch.Size, key: torch.Size, value: torch.Size, *_: Any, **__: Any) -> int:
        rows, heads, queries, width = query
        return 2 * rows * heads * queries * key[2] * (width + value[3])

    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return FlopCounterMode(display=False, custom_mapping={on_cpu: attention})


def untrained(problem: str, model: str = "") -> Policy:
    """The paper's network for a problem, or an option of the group `model`, with random weights."""
    torch.manual_seed(0)
    words = [f"experiment={PAPER[problem]}", "recipe=paper", *([f"model={model}"] if model else [])]
    return Configuration.of_training(*words).part("model", Policy).eval()


def write(path: Path, figures: dict[str, Any]) -> None:
    """Figures for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(figures, indent=1))


def main(threads, device) -> None:
    torch.set_num_threads(threads)
    device = resolve_device(device)
    where = hardware(device) if device.type == "cuda" else f"{threads} threads"
    for precision in precisions("auto", device):
        print(f"{precision}: {matrix_peak(precision, device):.0f} GFLOPS on {where}")
