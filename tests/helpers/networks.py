"""Networks whose every layer counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.interfaces import Problem

WAYS = ("groups", "dense")  # of attention within jobs and within machines


def attend_by(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention in groups, or over all pairs of operations."""
    monkeypatch.setattr("models.shop_attention.MAX_DENSE_RATIO", {"groups": 0, "dense": 1e9}[way])


def awake(network: nn.Module) -> nn.Module:
    """The network, with ReZero layers that no longer do nothing, as they do at first."""
    for name, parameter in network.named_parameters():
        if name.endswith("scale"):
            nn.init.constant_(parameter, 0.5)
    return network


@torch.no_grad()
def legal_logits(problem: Problem, policy: nn.Module, instance: NamedTuple, state: NamedTuple) -> Tensor:
    """[R, A], 0 where illegal."""
    return policy(policy.encode(instance), state).masked_fill(~problem.mask(instance, state), 0.0)


def slow_layer(
    layer: nn.Module,
    tokens: dict[Hashable, Tensor],
    sees: Callable = lambda query, key: True,
    bias: Callable = lambda query, key, head: 0.0,
) -> dict[Hashable, Tensor]:
    """{name: vector} -> {name: vector}: each token attends to those it sees, one head and one key after the other."""
    parts = {name: layer.qkv(token) for name, token in tokens.items()}
    width = len(next(iter(tokens.values())))
    d = width // layer.heads
    moved = {}
    for name, token in tokens.items():
        seen = [other for other in tokens if sees(name, other)]
        mixed = []
        for head in range(layer.heads):
            query, keys, values = (slice(k * width + head * d, k * width + (head + 1) * d) for k in range(3))
            scores = [parts[name][query] @ parts[key][keys] / math.sqrt(d) + bias(name, key, head) for key in seen]
            shares = torch.stack(scores).softmax(0)
            mixed.append(sum(share * parts[key][values] for share, key in zip(shares, seen, strict=True)))
        token = token + layer.scale * layer.output_projection(torch.cat(mixed))
        moved[name] = token + layer.scale * layer.down_projection(F.gelu(layer.up_projection(token)))
    return moved
