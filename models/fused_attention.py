"""Torch's fused attention, and what its kernels on GPUs ask of their inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

MAX_ROWS = 2**16 - 1  # of a call; a kernel fails with more ("invalid configuration argument")
ALIGNMENT = 16  # bytes; a kernel takes vectors of multiples of it alone
# torch prefers a kernel that works on 128 tokens at a time, however few there are, to one that works on 64; on an H200
# the latter takes half the time for 21 to 64 tokens, and one and a half times as long for 101 (docs/results.md).
MAX_TOKENS_OF_SMALL_TILES = 64


def fused_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Softmax attention over [R, heads, n, d], with a bias that expands to [R, heads, n, n]; R is not limited."""
    rows = len(query)
    if bias is not None:
        bias = bias.to(query.dtype)
    if rows <= MAX_ROWS:
        return aligned_attention(query, key, value, bias)
    parts = [x.split(MAX_ROWS) for x in (query, key, value)]
    biases = [None] * len(parts[0]) if bias is None else bias.expand(rows, -1, -1, -1).split(MAX_ROWS)
    return torch.cat([aligned_attention(*part) for part in zip(*parts, biases, strict=True)])


def aligned_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attention of at most MAX_ROWS rows. Zeros are added to vectors that are not aligned; they change no score.

    Without them, torch would compute attention with a bias by matrix products that keep all scores in memory.
    """
    size = query.shape[-1]
    missing = -size % (ALIGNMENT // query.element_size())
    if missing:
        query, key, value = (F.pad(x, (0, missing)) for x in (query, key, value))
    return _fastest_kernel(query, key, value, bias, size**-0.5)[..., :size]


def _fastest_kernel(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    if query.is_cuda and key.shape[-2] <= MAX_TOKENS_OF_SMALL_TILES:
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):  # the second one for float64
            return F.scaled_dot_product_attention(query, key, value, bias, scale=scale)
    return F.scaled_dot_product_attention(query, key, value, bias, scale=scale)
