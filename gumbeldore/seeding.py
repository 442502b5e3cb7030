"""Randomness that depends on what is drawn, never on who draws it or beside whom.

Seeds are folded from their meaning (seed, epoch, ...), and the Gumbel noise of a search is a pure function of
the instance's key and of the place in its search tree (SplitMix64 [Steele, Lea, Flood 2014] as a counter-based
generator). So an instance's samples do not depend on its neighbours, the batch size, the device or the workers.
"""

from __future__ import annotations

import math
import zlib

import torch
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # as signed 64-bit integers, the only ones torch has
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)


def mix(x: Tensor) -> Tensor:
    """SplitMix64's output function on int64 tensors (multiplication wraps around)."""
    x = xor_shifted(x, 30).mul_(MIX_1)
    x = xor_shifted(x, 27).mul_(MIX_2)
    return xor_shifted(x, 31)


def xor_shifted(x: Tensor, bits: int) -> Tensor:
    """x ^ (x >> bits), which can be undone."""
    return _shift_right(x, bits).bitwise_xor_(x)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift right; torch's `>>` copies the sign."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def fold(key: Tensor | int, *parts: Tensor | int | str) -> Tensor:
    """New keys (int64) from a key and what they are for; tensors broadcast."""
    key = torch.as_tensor(key, dtype=torch.int64)
    for part in parts:
        part = zlib.crc32(part.encode()) if isinstance(part, str) else part
        step: Tensor | int
        if isinstance(part, Tensor):
            step = part.to(dtype=torch.int64, device=key.device) * GOLDEN
        else:  # a number stays on the host: a copy of it to a GPU would wait for the GPU
            step = _signed(part * GOLDEN)
        key = mix(mix(key + GOLDEN) + step)
    return key


def _signed(number: int) -> int:
    """The same 64 bits as a signed integer."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def generator(seed: int, *parts: int | str) -> torch.Generator:
    """A CPU generator for one named purpose, e.g. generator(seed, "instances", epoch)."""
    return torch.Generator().manual_seed(int(fold(seed, *parts)))


def uniform_noise(keys: Tensor, place: int, shape: tuple[int, ...]) -> Tensor:
    """Uniform draws [B, *shape] in (0, 1), both ends excluded, in float64.

    A function of each key, the place and the position.

    Arguments:
        keys: int64 [B], one per instance
        place: which draw of the instance this is (e.g. round * T + depth), at least 0
        shape: of the draws of one instance
    """
    position = torch.arange(1, math.prod(shape) + 1, device=keys.device)
    bits = mix(fold(keys, place)[:, None] + position * GOLDEN)  # [B, draws]
    uniform = _shift_right(bits, 12).double().add_(0.5).mul_(2.0**-52)
    return uniform.view(-1, *shape)


def gumbel_noise(keys: Tensor, place: int, shape: tuple[int, ...]) -> Tensor:
    """Standard Gumbel draws [B, *shape] in float64; arguments as of `uniform_noise`."""
    return uniform_noise(keys, place, shape).log_().neg_().log_().neg_()
