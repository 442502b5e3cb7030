"""Large batches in parts that fit the cache; how large these are is measured once per machine and network."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from gumbeldore.files import cache_folder, replacing
from models.kernels import compiler

SIZES = [5 * 2**k for k in (16, 17, 18, 19)]  # of a part, in numbers of all its tokens: those compared
USUAL = SIZES[2]  # the best or nearly so on most machines and networks (docs/log.md); where none is clearly better
CLEARLY = 0.93  # of the usual one's time; with less to gain it may be noise
ROUNDS = 5
MULTIPLE = 8  # of rows in a part: other numbers change the last bits of torch's products in float32 (docs/log.md)
SCORES_AT_ONCE = 2**27  # attention scores held at once, where they are held at all

_found: dict[str, int] = {}  # by what `_known_by` says, in this process


class Cuttable(Protocol):
    """A network whose forward can be cut into parts; what it looks like is in the shapes of its parameters."""

    def whole(self, context: Any, state: Any) -> Tensor: ...

    def row_size(self, context: Any, state: Any) -> tuple[int, int]: ...

    def parameters(self) -> Iterable[Tensor]: ...


def in_parts(network: Cuttable, context: Any, state: Any) -> Tensor:
    """network.whole(context, state), both NamedTuples of [R, ...]; without gradients in parts of what fits at once.

    The batch is halved until it fits, so that of whatever size it is, the parts have few sizes. The logits are the same
    bits whatever fits (as measured, but for the JSSP in float32 without a compiler; see docs/log.md).
    """
    rows, count = state[0].shape[0], 1
    room = math.inf if torch.is_grad_enabled() else rows_at_once(network, context, state)
    while count < rows and -(-rows // count) > room:
        count *= 2
    if count == 1:
        return network.whole(context, state)
    unit = MULTIPLE if room >= MULTIPLE else 1
    units = -(-rows // unit)
    bounds = [min(rows, unit * (units * i // count)) for i in range(count + 1)]
    pieces = [slice(*piece) for piece in itertools.pairwise(bounds) if piece[0] < piece[1]]
    return torch.cat([network.whole(_rows(context, piece), _rows(state, piece)) for piece in pieces])


def rows_at_once(network: Cuttable, context: Any, state: Any) -> float:
    """How many of these rows fit at once: where attention scores are held, few enough for the memory; on a CPU, few
    enough for the cache."""
    device, rows = state[0].device, state[0].shape[0]
    scores, numbers = network.row_size(context, state)
    room = math.inf if compiler.applies(device) else SCORES_AT_ONCE / max(1, scores)
    if device.type != "cpu" or rows * numbers <= SIZES[0]:
        return room
    measurable = MULTIPLE * numbers <= SIZES[0] and not torch.compiler.is_compiling()
    return min(room, (numbers_at_once(network, context, state) if measurable else USUAL) / numbers)


def numbers_at_once(network: Cuttable, context: Any, state: Any) -> int:
    """The size of parts with which this network is fastest on this machine, one of SIZES.

    Who asks first measures it, on these states, and keeps the figures in the user's cache folder, so that all processes
    use the same; where nothing can be kept, that is the usual one.
    """
    known_by = _known_by(network)
    if known_by not in _found:
        path = cache_folder("parts") / f"{hashlib.sha256(known_by.encode()).hexdigest()[:16]}.json"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            times = _read(path) or _keep(path, known_by, measured(network, context, state))
            _found[known_by] = fastest(times)
        except OSError:
            _found[known_by] = USUAL
    return _found[known_by]


def fastest(times: dict[int, float]) -> int:
    """The size to use, given all sizes' times as a share of the usual one's."""
    best = min(SIZES, key=times.__getitem__)
    return best if times[best] < CLEARLY else USUAL


def measured(network: Cuttable, context: Any, state: Any) -> dict[int, float]:
    """What a row takes in parts of each size, as a share of what it takes in those of the usual one.

    The median of some rounds in which the sizes take turns: a busy machine slows down all of a round. The states are
    repeated until they fill a part.
    """
    _, numbers = network.row_size(context, state)
    shares = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        seconds = {size: _seconds_a_row(network, context, state, size // numbers) for size in SIZES}
        for size, took in seconds.items():
            shares[size].append(took / seconds[USUAL])
    return {size: round(statistics.median(found), 3) for size, found in shares.items()}


def _seconds_a_row(network: Cuttable, context: Any, state: Any, rows: int) -> float:
    some = torch.arange(rows) % state[0].shape[0]
    part = _rows(context, some), _rows(state, some)
    start = time.perf_counter()
    network.whole(*part)
    return (time.perf_counter() - start) / rows


def _read(path: Path) -> dict[int, float] | None:
    """The figures in a file; None if it is not there, or damaged."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        times = {int(size): float(took) for size, took in json.loads(path.read_bytes())["times"].items()}
        if set(times) == set(SIZES):
            return times
    return None


def _keep(path: Path, known_by: str, times: dict[int, float]) -> dict[int, float]:
    """Write the figures of a network to a file, or read those of a process that was faster."""
    if others := _read(path):
        return others
    with replacing(path) as file:
        file.write(json.dumps({"times": times, "of": known_by}, indent=1).encode())
    return times


def _known_by(network: Cuttable) -> str:
    """What the time of a part depends on, but for the number of tokens, which changes at every step."""
    shapes = [tuple(parameter.shape) for parameter in network.parameters()]
    kernels = compiler.compiles(), torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
    return f"{type(network).__name__} {shapes} {kernels} {torch.get_num_threads()} threads {compiler.processor()}"


def _rows(tensors: Any, rows: slice | Tensor) -> Any:
    return type(tensors)(*(field[rows] for field in tensors))
