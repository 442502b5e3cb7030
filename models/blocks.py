"""Transformer pieces without any problem's words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Softmax attention over [R, heads, n, d]; all tokens see each other.

    On CPUs explicit matrix products beat the fused kernel 1.3 to 4 times on the short sequences of this field
    (measured; see docs/log.md), and only they train fast in bf16.
    """
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value)
    scores = query @ (key * key.shape[-1] ** -0.5).transpose(-1, -2)
    return scores.softmax(dim=-1).to(value.dtype) @ value


class ReZeroLayer(nn.Module):
    """x + a*attention(x), then x + a*feedforward(x), with one learnt a that starts at 0; no normalisation."""

    def __init__(self, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.widen = nn.Linear(width, feedforward)
        self.narrow = nn.Linear(feedforward, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """[R, n, width] -> [R, n, width]"""
        rows, n, width = x.shape
        query, key, value = self.qkv(x).view(rows, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = attention(query, key, value).transpose(1, 2).reshape(rows, n, width)
        x = x + self.scale * self.out(mixed)
        return x + self.scale * self.narrow(F.gelu(self.widen(x)))
