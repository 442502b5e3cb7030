"""Attention on a GPU: torch's fused kernels, and what they ask of their inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_ROWS = 2**16 - 1  # of a call; a kernel fails with more ("invalid configuration argument")
ALIGNMENT = 16  # bytes; with a bias, a kernel takes vectors of multiples of it alone


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
    """Attention of at most MAX_ROWS rows. With a bias, zeros are added to vectors that are not aligned.

    torch does so by itself where there is no bias. Where there is one, torch would compute attention by matrix products
    that keep all scores in memory. Zeros change no score.
    """
    size = query.shape[-1]
    missing = -size % (ALIGNMENT // query.element_size())
    if bias is None or not missing:
        return F.scaled_dot_product_attention(query, key, value, bias)
    query, key, value = (F.pad(x, (0, missing)) for x in (query, key, value))
    return F.scaled_dot_product_attention(query, key, value, bias, scale=size**-0.5)[..., :size]
