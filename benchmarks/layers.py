"""GFLOPS of a stack of the paper's layers (TSP-100) on a CPU, by sequence length and way of attention.

The stack has no embedding and no head. The ways of attention:

    explicit  matrix products and a softmax
    fused     torch's scaled_dot_product_attention
    padded    explicit, on sequences padded with hidden keys to the next multiple of 16
    current   the project's layers as they are

`products` are the same matrix products (qkv, output, up and down projections) alone, with inputs and weights converted
before. Operations on padding do not count, so at one length the way with the most GFLOPS takes the least time. Figures
are medians of `repeats` turns, in which the ways follow each other, or of fewer turns where these would take longer
than `seconds`. `spread` is the largest interquartile range of the times, as a share of their median: ways that differ
by less may be equally fast.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.machine import CPU, numbers, precisions, turns, untrained, write
from gumbeldore.reporting.console import hardware
from gumbeldore.runtime.memory import keep_freed_memory
from gumbeldore.runtime.precision import autocast, dtype_of
from models.attention import MASKED_SCORE
from models.layers import ReZeroLayers

DEFAULTS = {"lengths": "12,22,52,100", "rows": 128, "threads": 1, "precision": "auto"} | {
    "repeats": 9,
    "seconds": 300.0,
    "out": "",
}
LANES = 16  # float32 numbers in a register of AVX-512


def explicit(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
    """What models/attention.py did on CPUs until 2026-11-26: whatever takes its place there is compared with it."""
    scores = query @ (key * key.shape[-1] ** -0.5).transpose(-1, -2)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    keys = scores.shape[-1]
    if keys >= LANES:
        return scores.softmax(dim=-1) @ value
    return scores.reshape(-1, keys).t().contiguous().softmax(dim=0).t().reshape(scores.shape) @ value


def with_attention(layers: ReZeroLayers, x: Tensor, attention: Callable[..., Tensor]) -> Tensor:
    """The stack, [R, n, width] -> [R, n, width], with another attention over [R, heads, n, d]."""
    for layer in layers:
        qkv = layer.qkv(x)
        query, key, value = qkv.view(*qkv.shape[:2], 3, layer.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + layer.scale * layer.output_projection(attention(query, key, value).transpose(1, 2).flatten(2))
        x = x + layer.scale * layer.feedforward(x)
    return x


def padded(layers: ReZeroLayers, x: Tensor) -> Tensor:
    """The stack, [R, n, width] -> [R, n, width]."""
    count = x.shape[1]
    size = -(-count // LANES) * LANES
    bias = torch.zeros(size).masked_fill(torch.arange(size) >= count, MASKED_SCORE) if size > count else None
    return with_attention(layers, F.pad(x, (0, 0, 0, size - count)), partial(explicit, bias=bias))[:, :count]


WAYS: dict[str, Callable[[ReZeroLayers, Tensor], Tensor]] = {
    "explicit": partial(with_attention, attention=explicit),
    "fused": partial(with_attention, attention=F.scaled_dot_product_attention),
    "padded": padded,
    "current": lambda layers, x: layers(x),
}


def products(layers: ReZeroLayers, x: Tensor) -> None:
    """The products of the stack and nothing else; layers and x [R, n, width] are in one number format."""
    for layer in layers:
        layer.qkv(x)
        layer.down_projection(layer.up_projection(layer.output_projection(x)))


def operations(layers: ReZeroLayers, rows: int, count: int) -> tuple[int, int]:
    """Of the four products of all layers, and with the two of attention; a multiplication and a sum count as two."""
    projections = 2 * rows * count * sum(weights.numel() for weights in layers.parameters() if weights.dim() > 1)
    return projections, projections + len(layers) * 4 * rows * count**2 * layers[0].output_projection.in_features


def spread(times: list[float]) -> float:
    """The interquartile range as a share of the median."""
    low, middle, high = torch.tensor(times).quantile(torch.tensor([0.25, 0.5, 0.75])).tolist()
    return (high - low) / middle


@torch.no_grad()
def main(lengths, rows, threads, precision, repeats, seconds, out) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)
    layers = untrained("tsp").layers
    cases = list(itertools.product(precisions(precision), numbers("lengths", lengths, int)))
    calls: dict[tuple[str, int, str], Callable[[], object]] = {}
    for kind, count in cases:
        x = torch.randn(rows, count, layers[0].output_projection.in_features)
        calls[kind, count, "products"] = partial(products, deepcopy(layers).to(dtype_of(kind)), x.to(dtype_of(kind)))
        for way, forward in WAYS.items():  # as in a search, every pass converts the weights
            calls[kind, count, way] = autocast(CPU, kind)(partial(forward, layers, x))
    for call in calls.values():
        call()  # warms up
    took: dict[tuple[str, int, str], list[float]] = {key: [] for key in calls}
    for _ in turns(repeats, seconds):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            took[key].append(time.perf_counter() - start)

    count = min(map(len, took.values()))
    print(f"{hardware(CPU)}, {threads} threads, {rows} rows, {len(layers)} layers; medians of {count}, interleaved")
    print(f"{'GFLOPS':9}{'length':>7}" + "".join(f"{name:>10}" for name in ("products", *WAYS, "spread", "fastest")))
    table = {}
    for kind, count in cases:
        times = {name: took[kind, count, name] for name in ("products", *WAYS)}
        alone, whole = operations(layers, rows, count)
        figures = {name: (whole if name in WAYS else alone) / statistics.median(x) / 1e9 for name, x in times.items()}
        fastest = max(WAYS, key=figures.__getitem__)
        figures["spread"] = max(map(spread, times.values()))
        print(f"{kind:9}{count:7}" + "".join(f"{figures[name]:10.1f}" for name in times), end="")
        print(f"{figures['spread']:10.0%}{fastest:>10}")
        table[f"{kind} {count}"] = figures
    if out:
        write(Path(out), {"threads": threads, "rows": rows, "layers": table})
