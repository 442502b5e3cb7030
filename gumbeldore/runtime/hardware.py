"""The machine that this process runs on."""

from __future__ import annotations

import os
import platform

import torch

SOLVER_THREADS = 8  # with fewer, also on fewer cores, CP-SAT tries fewer strategies


def available_cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hardware(device: torch.device) -> str:
    """The machine in words, as results need it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        model = names[0] if names else model
    return f"{model}, {available_cores()} cores"
