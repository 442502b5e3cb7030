"""The rules: boards, moves with the opponent's replies, the end of a game."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from problems.gomoku.opponent import OTHER, OWN, Stones, rows_of


class Instance(NamedTuple):
    start: Tensor  # [R] int64 cell of the opponent's first stone; cell c is in line c // size, column c % size


class State(NamedTuple):
    board: Tensor  # [R, C] int8: 1 our stones, -1 the opponent's, 0 empty
    outcome: Tensor  # [R] int8: 1 won, -1 lost, 0 drawn or not over

    @property
    def over(self) -> Tensor:
        """bool [R]"""
        return (self.outcome != 0) | (self.board != 0).all(dim=1)


class Board(NamedTuple):
    size: int  # cells in a line
    in_a_row: int  # stones that win

    @property
    def cells(self) -> int:
        return self.size**2

    def begin(self, instance: Instance) -> State:
        """The opponent has placed its first stone."""
        board = torch.zeros(len(instance.start), self.cells, dtype=torch.int8, device=instance.start.device)
        nothing = torch.zeros_like(board[:, 0])
        return State(board.scatter(1, instance.start[:, None], OTHER), nothing)

    def move(self, state: State, cell: Tensor) -> State:
        """Our next stone [R], and the opponent's; games that are over stay as they are."""
        rows = rows_of(self.size, self.in_a_row, cell.device)
        ours = ~state.over
        board = _placed(state.board, cell, OWN, ours)
        stones = Stones.of(board, rows)
        won = ours & stones.won(self.in_a_row)
        replies = ours & ~won & (board == 0).any(dim=1)
        lost = replies & stones.lost(self.in_a_row)
        board = _placed(board, stones.reply(board, rows, self.in_a_row), OTHER, replies)
        return State(board, state.outcome + won.to(torch.int8) - lost.to(torch.int8))

    def lengths(self, instance: Instance, actions: Tensor) -> Tensor:
        """How many of our moves int64 [R] the games of the moves [R, T] have."""
        state, count = self.begin(instance), torch.zeros_like(actions[:, 0])
        for cell in actions.unbind(dim=1):
            count += ~state.over
            state = self.move(state, cell)
        return count

    def numbered(self, instance: Instance, actions: Tensor) -> Tensor:
        """The number [R, C] of the move that took each cell in the games of our moves [R, T], 0: it is empty.

        The opponent's moves are 1, 3, ..., ours 2, 4, ...
        """
        state = self.begin(instance)
        numbers = (state.board != 0).long()
        for turn, cell in enumerate(actions.unbind(dim=1)):
            after = self.move(state, cell)
            new = (after.board != 0) & (state.board == 0)
            numbers = torch.where(new, torch.where(after.board == OWN, 2 * turn + 2, 2 * turn + 3), numbers)
            state = after
        return numbers


def _placed(board: Tensor, cell: Tensor, player: int, where: Tensor) -> Tensor:
    """The boards [R, C] with a stone more on a cell [R] of those rows, bool [R]."""
    there = board.gather(1, cell[:, None])
    return board.scatter(1, cell[:, None], torch.where(where[:, None], player, there).to(board.dtype))
