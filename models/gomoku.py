"""The network for gomoku: a small residual convolutional one, as for AlphaZero's games [GD, appendix C.4]."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gumbeldore.interfaces import Policy
from gumbeldore.runtime.checked import check_counts
from models.layers import FullPrecisionLinear
from models.micro_batches import RowSize, in_micro_batches
from problems.gomoku import Instance, State

PLANES = 3  # our stones, the opponent's, the board


class Convolution(nn.Linear):
    """Of 3 x 3 cells; the weights are a matrix, as Muon wants them."""

    def __init__(self, channels: int, width: int):
        super().__init__(9 * channels, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight.view(-1, x.shape[1], 3, 3), self.bias, padding=1)


class ResidualBlock(nn.Module):
    """Two convolutions of 3 x 3 cells, weighted with a learnt scale that starts at 0 (ReZero)."""

    def __init__(self, width: int):
        super().__init__()
        self.first = Convolution(width, width)
        self.second = Convolution(width, width)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.second(F.relu(self.first(x)))


class GomokuNet(Policy):
    """Logits of the next cell from the board; the plane of ones shows where the board ends.

    Arguments:
        width: channels of each block
        blocks: residual blocks, of which each widens by 4 cells what a cell sees
    """

    problem = "gomoku"

    def __init__(self, width: int, blocks: int):
        check_counts(width=width, blocks=blocks)
        super().__init__()
        self.embed = Convolution(PLANES, width)
        self.blocks = nn.ModuleList([ResidualBlock(width) for _ in range(blocks)])
        self.head = FullPrecisionLinear(width, 1)

    def forward(self, context: Instance, state: State) -> Tensor:
        """Logits [R, C]"""
        row = RowSize(scores=0, activations=state.board.shape[1] * self.embed.out_features)
        return in_micro_batches(self.forward_in_one_pass, row, state)

    def forward_in_one_pass(self, state: State) -> Tensor:
        """`forward` without micro-batches."""
        size = round(state.board.shape[1] ** 0.5)
        board = state.board.view(-1, size, size)
        planes = torch.stack([board == 1, board == -1, torch.ones_like(board).bool()], dim=1)
        x = self.embed(planes.to(self.embed.weight.dtype))
        for block in self.blocks:
            x = block(x)
        return self.head(F.relu(x).movedim(1, -1)).flatten(1)
