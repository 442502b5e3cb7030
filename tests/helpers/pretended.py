"""A GPU that is not there: tensors that say they are on one, and lie in the CPU's memory.

Operations on them refuse what a GPU's would: to mix them with tensors elsewhere (but for single numbers), and to show
their memory. So a search or a training that ends has put everything where it belongs, and how often it waited for
values has been counted. Of a GPU's speed, kernels and number formats nothing is learnt: that is for tests/test_gpu.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

GPU = torch.device("cuda", 0)
WAITING = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique", "_unique2", "bincount"}
CROSSING = {"_to_copy", "copy_"}  # between devices
STAGED = 2**16  # bytes that may be copied from memory that is not pinned without waiting for what is under way


class Pretended(Tensor):
    """A tensor on the GPU."""

    memory: Tensor  # its numbers
    device = GPU
    is_cuda, is_cpu, is_meta = True, False, False

    @staticmethod
    def __new__(cls, memory: Tensor) -> Pretended:
        layout = {"strides": memory.stride(), "storage_offset": memory.storage_offset(), "dtype": memory.dtype}
        pretended = Tensor._make_wrapper_subclass(cls, memory.shape, device="meta", **layout)
        pretended.memory = memory
        return pretended

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func}: there is no GPU any more")

    def __repr__(self) -> str:
        return f"Pretended({self.memory})"

    def tolist(self) -> list:
        return self.cpu().tolist()

    def __reduce_ex__(self, protocol: int) -> tuple:
        return self.memory.__reduce_ex__(protocol)  # checkpoints are read onto the CPU


class PretendedGPU(TorchDispatchMode):
    """The GPU; `waits` counts the operations that Python waits for: it needs a value, or the size of a tensor."""

    def __init__(self):
        super().__init__()
        self.waits = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "_fused_sdp_choice":
            return 0  # attention by matrix products
        if name == "is_pinned":
            return hasattr(args[0], "pinned")
        if name == "_pin_memory":
            pinned = args[0].clone()
            pinned.pinned = True
            return pinned
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        there = {id(each.memory): each for each in given if isinstance(each, Pretended)}
        elsewhere = [each for each in given if not isinstance(each, Pretended) and each.dim()]
        if there and elsewhere and name not in CROSSING:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device")
        device = kwargs.get("device")
        on_gpu = bool(there) if device is None else torch.device(device).type != "cpu"
        self.waits += waits(name, args, there, on_gpu)
        here = {"device": torch.device("cpu"), "pin_memory": False}
        kwargs = {key: here.get(key, value) for key, value in kwargs.items()}
        args, kwargs = tree_map_only(Pretended, lambda each: each.memory, (args, kwargs))
        found = func(*args, **kwargs)
        if not on_gpu:
            return found
        return tree_map_only(Tensor, lambda each: there[id(each)] if id(each) in there else Pretended(each), found)


def waits(name: str, args: tuple, there: dict, on_gpu: bool) -> bool:
    """Whether the program waits for the GPU to know the result."""
    if name == "_to_copy" and on_gpu and not there:
        return args[0].nbytes > STAGED and not hasattr(args[0], "pinned")
    to_cpu = name == "_to_copy" and not on_gpu or name == "copy_" and not isinstance(args[0], Pretended)
    by_mask = name in ("index", "index_put_") and any(each is not None and each.dtype == torch.bool for each in args[1])
    return bool(there) and (name in WAITING or to_cpu or by_mask)


@contextlib.contextmanager
def pretended_gpu(gib: int = 80) -> Iterator[PretendedGPU]:
    """A machine with one GPU, `GPU`, of so much memory."""
    answers = {
        "_lazy_init": lambda: None,
        "set_device": lambda _: None,
        "get_device_properties": lambda _: SimpleNamespace(total_memory=gib * 2**30),
        "get_device_name": lambda _: "pretended GPU",
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch(f"torch.cuda.{name}", answer))
        yield stack.enter_context(PretendedGPU())
