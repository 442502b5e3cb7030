"""Transformer layers, for any problem."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention import AttentionGroups, multi_head_attention


class FullPrecisionLinear(nn.Linear):
    """A linear map in the precision of its weights, also under autocast: bf16 would blur coordinates and logits."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.weight.dtype)
        if not torch.is_autocast_enabled(x.device.type):
            return super().forward(x)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x)


class Linears(nn.Module):
    """Several linear maps of one input side by side: one matrix product, but a matrix each for the optimizer."""

    def __init__(self, count: int, inputs: int, outputs: int):
        super().__init__()
        bound = inputs**-0.5  # as nn.Linear
        self.weight = nn.Parameter(torch.empty(count, outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(count * outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., count * outputs]"""
        return F.linear(x, self.weight.flatten(0, 1), self.bias)


class ReZeroLayer(nn.Module):
    """A transformer layer with ReZero [Bachlechner et al. 2021] in the place of normalisation.

    One learnt scale a, which starts at 0, weights both residual branches.

    Arguments:
        learnt_scale: False: a is 1, a plain layer without any normalisation
    """

    def __init__(self, width: int, heads: int, feedforward: int, learnt_scale: bool = True):
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got width={width} and heads={heads}")
        self.heads = heads
        self.qkv = Linears(3, width, width)
        self.output_projection = nn.Linear(width, width)
        self.up_projection = nn.Linear(width, feedforward)
        self.down_projection = nn.Linear(feedforward, width)
        self.scale: Tensor | float = nn.Parameter(torch.zeros(())) if learnt_scale else 1.0

    def forward(self, x: Tensor, bias: Tensor | None = None, groups: AttentionGroups | None = None) -> Tensor:
        """[R, n, width] -> [R, n, width]

        Tokens attend to all tokens of their row, or with `groups` to the tokens of their group. `bias` is added to the
        attention scores and expands to [R, heads, n, n], or with groups to [groups, heads, size, size].
        """
        a = self.scale
        x = x + a * self.attention(x, bias, groups)
        x = x + a * self.feedforward(x)
        return x

    def attention(self, x: Tensor, bias: Tensor | None, groups: AttentionGroups | None) -> Tensor:
        return self.output_projection(multi_head_attention(self.qkv(x), self.heads, bias, groups))

    def feedforward(self, x: Tensor) -> Tensor:
        return self.down_projection(F.gelu(self.up_projection(x)))


class ReZeroLayers(nn.ModuleList):
    """A stack of layers, [R, n, width] -> [R, n, width]; all tokens of a row attend to each other.

    `bias`, which expands to [R, heads, n, n], is added to the attention scores of every layer.
    """

    def __init__(self, layers: int, width: int, heads: int, feedforward: int, learnt_scale: bool = True):
        super().__init__([ReZeroLayer(width, heads, feedforward, learnt_scale) for _ in range(layers)])

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.intermediate_outputs(x, bias)[-1]

    def intermediate_outputs(self, x: Tensor, bias: Tensor | None = None) -> list[Tensor]:
        """The tokens [R, n, width] after the first half of the layers, and after all: for deep supervision."""
        for number, layer in enumerate(self):
            if number == len(self) // 2:
                halfway = x
            x = layer(x, bias)
        return [halfway, x]
