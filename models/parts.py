"""Large batches in parts: of a GPU's memory, or of a CPU's cache, whose size is measured once.

That is once per machine, network, format and number of threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from gumbeldore.files import cache_folder, replacing
from gumbeldore.memory import gpu_memory
from models.kernels import compiler

CPU = torch.device("cpu")
SIZES = [5 * 2**k for k in (16, 17, 18, 19)]  # of a part, in numbers of all its tokens: those compared
USUAL = SIZES[2]  # the best or nearly so on the machines and networks of docs/log.md
CLEARLY = 0.93  # of the usual one's time: with less to gain it may be noise
ROUNDS = 5
ROWS = 8  # at least, in the smallest part, for sizes to be told apart
PAIRS_AT_ONCE = 2**27  # numbers of pairs of tokens held at once on a CPU, where they are held at all
GPU_SHARE = 4  # a forward pass takes at most this part of a GPU's memory,
HELD = 16  # where it holds about so many numbers for each number of its tokens, all in float32
LINES_AT_ONCE = 2**16 - 1  # more than torch's fused attention takes at once on a GPU

_found: WeakKeyDictionary[Cuttable, dict[str, int]] = WeakKeyDictionary()  # the sizes, by how a network runs


class RowSize(NamedTuple):
    """What a row takes in a forward pass."""

    pairs: int  # numbers of pairs of tokens: the attention scores of a layer, where they are held, and the like
    numbers: int  # of all its tokens
    lines: int = 1  # within which its tokens attend to each other


class Cuttable(Protocol):
    """A network (nn.Module) whose forward can be cut into parts."""

    def whole(self, context: Any, state: Any) -> Tensor: ...

    def row_size(self, context: Any, state: Any) -> RowSize: ...

    def modules(self) -> Any: ...

    def parameters(self) -> Any: ...


def in_parts(network: Cuttable, context: Any, state: Any) -> Tensor:
    """network.whole(context, state), both NamedTuples of [R, ...]; without gradients in parts of what fits at once.

    The batch is halved until it fits, so that of whatever size it is, the parts have few sizes.
    """
    rows = part = state[0].shape[0]
    room = math.inf if torch.is_grad_enabled() else rows_at_once(network, context, state)
    while part > 1 and part > room:
        part = -(-part // 2)
    if part == rows:
        return network.whole(context, state)
    pieces = (slice(first, first + part) for first in range(0, rows, part))
    return torch.cat([network.whole(_rows(context, piece), _rows(state, piece)) for piece in pieces])


def rows_at_once(network: Cuttable, context: Any, state: Any) -> float:
    """How many of these rows fit at once into a GPU's memory, or into a CPU's memory and cache."""
    device = state[0].device
    row = network.row_size(context, state)
    if device.type == "cuda":
        numbers = gpu_memory(device) // GPU_SHARE // torch.float32.itemsize
        return min(numbers / (row.pairs + HELD * row.numbers), LINES_AT_ONCE / row.lines)
    room = math.inf if compiler.applies(device) else PAIRS_AT_ONCE / max(1, row.pairs)
    if torch.compiler.is_compiling():
        return room
    return min(room, numbers_at_once(network, context, state) / row.numbers)


def numbers_at_once(network: Cuttable, context: Any, state: Any) -> int:
    """The size of parts with which this network is fastest on this machine, one of SIZES.

    The first batch that is larger than the smallest size is timed, and the figures are kept in the user's cache folder.
    The last bits of torch's products can depend on the number of rows, so all processes use the figures of the first,
    which they wait for; where nothing can be kept, the size is the usual one.
    """
    rows, numbers = state[0].shape[0], network.row_size(context, state).numbers
    if rows * numbers <= SIZES[0] or ROWS * numbers > SIZES[0]:
        return USUAL
    known = _found.setdefault(network, {})
    way = f"kernels: {compiler.applies(CPU)}, bf16: {compiler.in_bf16()}, {torch.get_num_threads()} threads"
    if way not in known:
        known[way] = USUAL
        with contextlib.suppress(OSError), _alone() as folder:
            case = f"{_shape(network)}, {way}, torch {torch.__version__}\n{compiler.processor()}"
            path = folder / f"{hashlib.sha256(case.encode()).hexdigest()[:16]}.json"
            times = _read(path)
            if times is None:
                times = measured(network, context, state)
                with replacing(path) as file:
                    file.write(json.dumps({"times": times, "of": case}, indent=1).encode())
            known[way] = fastest(times)
    return known[way]


def fastest(times: dict[int, float]) -> int:
    """The size to use, given all sizes' times as a share of the usual one's."""
    best = min(SIZES, key=times.__getitem__)
    return best if times[best] < CLEARLY else USUAL


def measured(network: Cuttable, context: Any, state: Any) -> dict[int, float]:
    """What a row takes in parts of each size, as a share of what it takes in those of the usual one.

    The median of some rounds in which the sizes take turns: a busy machine slows down all of a round. The states are
    repeated until they fill a part.
    """
    numbers = network.row_size(context, state).numbers
    shares = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        seconds = {size: _seconds_a_row(network, context, state, max(1, size // numbers)) for size in SIZES}
        for size, took in seconds.items():
            shares[size].append(took / seconds[USUAL])
    return {size: round(statistics.median(found), 3) for size, found in shares.items()}


def _seconds_a_row(network: Cuttable, context: Any, state: Any, rows: int) -> float:
    some = torch.arange(rows) % state[0].shape[0]
    part = _rows(context, some), _rows(state, some)
    start = time.perf_counter()
    network.whole(*part)
    return (time.perf_counter() - start) / rows


@contextlib.contextmanager
def _alone() -> Iterator[Path]:
    """The folder of all figures, while no other process is here; OSError if it cannot be written to."""
    try:
        folder = cache_folder("parts")
    except RuntimeError as error:  # there is no home
        raise OSError(str(error)) from None
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _read(path: Path) -> dict[int, float] | None:
    """The figures in a file; None if it is not there, or damaged."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        times = {int(size): float(took) for size, took in json.loads(path.read_bytes())["times"].items()}
        if set(times) == set(SIZES):
            return times
    return None


def _shape(network: Cuttable) -> str:
    """What the times depend on in a network; the number of tokens changes at every step, so it is left out."""
    shapes = [tuple(parameter.shape) for parameter in network.parameters()]
    heads = [module.heads for module in network.modules() if hasattr(module, "heads")]
    return f"{type(network).__name__} {shapes}, heads {heads}"


def _rows(tensors: Any, rows: slice | Tensor) -> Any:
    return type(tensors)(*(field[rows] for field in tensors))
