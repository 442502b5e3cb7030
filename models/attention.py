"""Multi-head softmax attention of tokens within their rows, or within groups of tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from models.fused_attention import fused_attention

# Up to so many tokens, matrix products and a softmax are faster than torch's fused attention (docs/results.md).
MAX_TOKENS_OF_PRODUCTS = 40  # on a CPU in float32; in bf16, products are always faster there
MAX_TOKENS_OF_PRODUCTS_ON_GPU = 20


def attention(qkv: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax attention of queries, keys and values [3, R, heads, n, d] to [R, heads, n, d].

    `bias`, which expands to [R, heads, n, n], is added to the scores.
    """
    if not products_are_faster(qkv):
        return fused_attention(*qkv, bias)
    query, key, value = qkv.contiguous()
    scores = query * key.shape[-1] ** -0.5 @ key.mT
    if bias is not None:
        scores = scores + bias
    return softmax(scores).to(value.dtype) @ value


def products_are_faster(qkv: Tensor) -> bool:
    """Whether matrix products take less time than torch's fused attention, which computes the same."""
    tokens = qkv.shape[-2]
    if qkv.is_cuda:
        return tokens <= MAX_TOKENS_OF_PRODUCTS_ON_GPU
    return tokens <= MAX_TOKENS_OF_PRODUCTS or qkv.dtype != torch.float32


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension.

    On a CPU, where the last dimension is shorter than the 16 lanes of AVX-512, torch's own softmax does not use them
    and takes about 8 times as long; over the first dimension of a transposed copy it does (docs/decisions.md).
    """
    keys = scores.shape[-1]
    if keys >= 16 or scores.is_cuda:
        return scores.softmax(dim=-1)
    return scores.reshape(-1, keys).t().contiguous().softmax(dim=0).t().reshape(scores.shape)


MASKED_SCORE = -1e9  # hides a key from a softmax; finite, since all keys of a query may be hidden


def bias_against(hidden: Tensor) -> Tensor:
    """A bias float32, MASKED_SCORE where `hidden` bool and 0 elsewhere."""
    return torch.zeros_like(hidden, dtype=torch.float32).masked_fill_(hidden, MASKED_SCORE)


class AttentionGroups(NamedTuple):
    """Groups of tokens that attend to each other, of all rows side by side, padded to one size with empty slots."""

    slot_of_token: Tensor  # [R * n] int64 in 0..groups*size-1, group by group
    token_in_slot: Tensor  # [groups * size] int64 in 0..R*n-1; 0 in an empty slot, as in one whose token is alone
    hidden: Tensor  # [groups, 1, 1, size] float32, the bias that hides such slots
    alone: Tensor | None  # [R, n] bool: tokens that attend to themselves, and no other token to them; None: no token

    @classmethod
    def of(cls, slot_of_token: Tensor, groups: int, size: int, alone: Tensor | None = None) -> AttentionGroups:
        tokens = torch.arange(len(slot_of_token), device=slot_of_token.device)
        if alone is not None:
            tokens.masked_fill_(alone.flatten(), -1)
        token_in_slot = torch.full((groups * size,), -1, device=slot_of_token.device)
        token_in_slot.index_copy_(0, slot_of_token, tokens)
        hidden = bias_against(token_in_slot < 0).view(groups, 1, 1, size)
        return cls(slot_of_token, token_in_slot.clamp_(min=0), hidden, alone)


def multi_head_attention(qkv: Tensor, heads: int, bias: Tensor | None, groups: AttentionGroups | None) -> Tensor:
    """Queries, keys and values [R, n, 3 * width] of all heads to [R, n, width].

    Tokens attend to all tokens of their row, or with `groups` to the tokens of their group. `bias` is added to the
    scores: it expands to [R, heads, n, n], or with groups to [groups, heads, size, size], where it must hide the empty
    slots (`AttentionGroups.hidden`).
    """
    rows, count, _ = qkv.shape
    grouped = qkv
    if groups is not None:
        grouped = qkv.flatten(0, 1).index_select(0, groups.token_in_slot).view(len(groups.hidden), -1, qkv.shape[-1])
    of_heads = grouped.view(*grouped.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)  # [3, R, heads, n, d]
    x = attention(of_heads, bias).transpose(1, 2).flatten(2)
    if groups is not None:
        x = x.flatten(0, 1).index_select(0, groups.slot_of_token).view(rows, count, -1)
        x = x if groups.alone is None else torch.where(groups.alone[..., None], qkv.chunk(3, dim=-1)[2], x)
    return x
