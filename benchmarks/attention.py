"""Attention in one piece against torch's own operations, forwards and backwards, in turn: ms, medians.

Shapes are `rows x tokens x heads x size of a head`: of the paper's networks on TSP-100, CVRP-50, -20 and on the
machines of 6x6 and 10x10, and of the CVRP preset while it trains.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable

import torch
from models.kernels import compiler
from models.products import Product
from torch import Tensor

from benchmarks.machine import CPU, seconds_at
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import dtype_of, resolve_precision
from models.attention import mix

DEFAULTS = {
    "shapes": "128x102x8x16,128x52x12x16,1024x22x12x16,6000x6x8x8,1280x10x8x8,128x22x4x16",
    "threads": torch.get_num_threads(),
    "repeats": 15,
    "precision": "auto",
}


def seconds(function: Callable[[], object]) -> float:
    start = seconds_at(CPU)
    function()
    return seconds_at(CPU) - start


def measure(qkv: Tensor, heads: int, repeats: int) -> dict[str, list[float]]:
    """Medians of seconds forwards and backwards, by torch and in one piece."""
    ways = {"torch": lambda device: False, "one piece": compiler.applies}
    times: dict[str, list[list[float]]] = {way: [[], []] for way in ways}
    for _ in range(repeats):
        for way, applies in ways.items():
            original, compiler.applies = compiler.applies, applies
            try:
                with torch.no_grad():
                    forth = seconds(lambda: mix(Product(qkv, None), heads, None, None))
                given = qkv.clone().requires_grad_()
                out = mix(Product(given, None), heads, None, None)
                back = seconds(lambda: torch.autograd.grad(out, given, torch.ones_like(out)))  # noqa: B023
            finally:
                compiler.applies = original
            times[way][0].append(forth)
            times[way][1].append(back)
    return {way: [statistics.median(each) for each in both] for way, both in times.items()}


def main(shapes, threads, repeats, precision) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    precision = resolve_precision(precision, CPU)
    if not compiler.applies(CPU):
        sys.exit("error: attention in one piece needs a C++ compiler")
    print(f"{threads} threads, {precision}, medians of {repeats}")
    print(f"{'':20}{'forwards: torch':>16}{'one piece':>11}{'':8}{'backwards: torch':>18}{'one piece':>11}")
    for shape in shapes.split(","):
        rows, tokens, heads, size = map(int, shape.split("x"))
        qkv = torch.randn(rows, tokens, 3 * heads * size).to(dtype_of(precision))
        (forth, back), (fused_forth, fused_back) = measure(qkv, heads, repeats).values()
        print(
            f"{shape:20}{1e3 * forth:16.2f}{1e3 * fused_forth:11.2f}{forth / fused_forth:7.1f}x"
            f"{1e3 * back:18.2f}{1e3 * fused_back:11.2f}{back / fused_back:7.1f}x"
        )
