"""Gomoku: five in a row win, against a deterministic opponent who has begun [GD, appendix C.4]."""

from __future__ import annotations

import torch
from torch import Tensor

from gumbeldore.instance_set import InstanceSet
from gumbeldore.interfaces import Problem, without_references
from problems.common.files import taken
from problems.gomoku.game import Board, Instance, State
from problems.gomoku.reports import GomokuReports

STARTS = "starts"  # the set of all starting positions


class Gomoku(Problem):
    """An action is the cell of our next stone (A = C = size * size), to which the opponent replies in the same step.

    T = C // 2 decisions. A game that is over has one legal action, 0, which changes nothing. The cost is -1 for a game
    that is won, 1 for a lost one, 0 for a draw.

    Arguments:
        size: of the square board
        in_a_row: stones in a row, in any direction, that win; more win, too
    """

    name = "gomoku"

    def __init__(self, size: int, in_a_row: int):
        if not 3 <= in_a_row <= size:
            raise ValueError(f"in_a_row must be between 3 and size={size}, got {in_a_row}")
        self.board = Board(size, in_a_row)
        self.reports = GomokuReports(self.board)

    def generate(self, n: int, generator: torch.Generator) -> Instance:
        """n starting positions in a random order, each about as often: with n = C, each once."""
        cells = self.board.cells
        rounds = [torch.randperm(cells, generator=generator) for _ in range(-(-n // cells))]
        return Instance(torch.cat(rounds)[:n])

    def num_actions(self, instance: Instance) -> int:
        return self.board.cells

    def horizon(self, instance: Instance) -> int:
        return self.board.cells // 2

    def last_choice(self, instance: Instance) -> int:
        return (self.board.cells - 3) // 2  # two cells are left, or three

    def num_choices(self, instance: Instance, actions: Tensor) -> Tensor:
        """Those before the end of the game."""
        return self.board.lengths(instance, actions).clamp(max=self.last_choice(instance) + 1)

    def reset(self, instance: Instance) -> State:
        return self.board.begin(instance)

    def step(self, instance: Instance, state: State, action: Tensor) -> State:
        return self.board.move(state, action)

    def mask(self, instance: Instance, state: State) -> Tensor:
        first = torch.arange(self.board.cells, device=state.board.device) == 0
        return torch.where(state.over[:, None], first, state.board == 0)

    def cost(self, instance: Instance, actions: Tensor) -> Tensor:
        """Minus the outcome [R] of the games that the moves [R, T] make."""
        state = self.reset(instance)
        for turn, cell in enumerate(actions.unbind(dim=1)):
            if not self.mask(instance, state).gather(1, cell[:, None]).all():
                raise ValueError(f"move {turn} goes to a cell that is not empty, or comes after the end of the game")
            state = self.step(instance, state, cell)
        return -state.outcome.float()

    def load(self, source: str, limit: int | None = None) -> list[InstanceSet]:
        """`starts`: all starting positions, cell by cell."""
        if source != STARTS:
            raise ValueError(f"instances={source} is no set of gomoku; there is {STARTS}, all starting positions")
        return [without_references(self, Instance(torch.arange(taken(limit, self.board.cells, STARTS))), STARTS)]
