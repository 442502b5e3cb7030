"""What a run uses of the machine: device, workers, processes, threads, rows at once; `auto` is decided here."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import torch

from gumbeldore.parallel import ray_cluster
from gumbeldore.runtime.gpu import gpu_memory, use_device
from gumbeldore.runtime.hardware import available_cores

CPU_BATCH_ROWS = 1024  # fastest of those measured, see docs/decisions.md
GPU_BATCH_ROWS = 16384  # a step takes several times as long as launching it (docs/results.md)


def resolve_device(device: str) -> torch.device:
    """The device a user means, made ready; 'auto' is the GPU if there is one. Raises ValueError if it is not there."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f"device={device} cannot be used: cpu and cuda can")
    if device.startswith("cpu:"):
        raise ValueError(f"device={device} cannot be used: all cores are one device, device=cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError) as error:
        why = str(error).splitlines()[0]
        raise ValueError(f"device={device} cannot be used: {why}; device=auto takes what is there") from None
    use_device(resolved)
    return resolved


def trie_budget(device: str) -> int:
    """Bytes that the trie of a chunk may take: a quarter of this process's GPU memory, 2 GiB per worker on CPUs."""
    kind = torch.device(device)
    return gpu_memory(kind) // 4 if kind.type == "cuda" else 2**31


def resolve_workers(workers: int | str, device: torch.device, threads: int) -> int:
    """The number of Ray actors; 'auto' is one per GPU, or as many as keep all cores busy: of the cluster, if joined.

    With one GPU no worker is started: sampling and training share its memory in this process.

    On CPUs, actors of one thread sample faster than one process of several, most of all on a machine that is busy
    with other things, where threads wait for each other at the end of every operation (docs/decisions.md).
    """
    if workers == "auto":
        if device.type == "cuda":
            if device.index is not None:
                return 0
            gpus = ray_cluster.gpus()
            return gpus if gpus > 1 or ray_cluster.joined() else 0
        return ray_cluster.room(threads)
    count = int(workers)
    if count and device.index is not None:
        raise ValueError(f"device={device} is one GPU, which this process uses itself: workers=0, or device=cuda")
    return count


def workers_per_gpu(workers: int, device: torch.device) -> int:
    """How many workers use each GPU at most; 0 if this process does all, or on CPUs."""
    return math.ceil(workers / ray_cluster.gpus()) if device.type == "cuda" and workers else 0


def resolve_rows(rows: int | str, device: torch.device) -> int:
    """Beam rows searched together; 'auto' depends on the kind of device."""
    if rows == "auto":
        return GPU_BATCH_ROWS if device.type == "cuda" else CPU_BATCH_ROWS
    return int(rows)


def check_processes(count: int, device: torch.device, batch_size: int) -> None:
    """Raises ValueError unless each of torchrun's processes has a GPU of its own, and an equal part of every batch."""
    gpus = torch.cuda.device_count() if device.index is None else 1
    if device.type == "cuda" and count > gpus:
        raise ValueError(f"torchrun --nproc-per-node={count} needs as many GPUs, device={device} has {gpus}")
    if batch_size % count:
        rule = f"train.batch_size={batch_size} cannot be shared out evenly among {count} processes"
        raise ValueError(f"torchrun --nproc-per-node={count}: {rule}")


def resolve_threads(threads: int | str, processes: int) -> int:
    """CPU threads of each process that trains; auto: all together one per core."""
    if threads != "auto":
        return int(threads)
    if processes == 1:
        return torch.get_num_threads()
    return max(1, available_cores() // processes)  # torchrun has set torch's own number to 1


@contextlib.contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
