"""A GPU as a process uses it: which kernels torch may choose, and how much memory there is."""

from __future__ import annotations

import torch

_sharing = 1  # processes on the GPU that this process uses


def use_device(device: torch.device, sharing: int = 1) -> None:
    """Make this process ready to compute on the device, before it does; a CPU needs nothing.

    Every process does that for itself: the one of the command, workers, and those that train with it.

    Arguments:
        sharing: processes that use this GPU, this one included
    """
    global _sharing
    if device.type != "cuda":
        return
    _sharing = sharing
    # On the newest GPUs torch prefers cuDNN's kernel for attention. cuDNN makes a plan for every new shape, which takes
    # tens of milliseconds in which the GPU has nothing to do, and a search has other numbers of rows at every step.
    # Compiled layers choose their kernel when they are compiled, by the same switch.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if device.index is not None:
        torch.cuda.set_device(device)  # what names no device, such as pinned memory, would also occupy the first GPU


def gpu_memory(device: torch.device) -> int:
    """The bytes of a GPU that this process may use: an equal share of all.

    The free ones would make the same command do different things.
    """
    return torch.cuda.get_device_properties(device).total_memory // _sharing
