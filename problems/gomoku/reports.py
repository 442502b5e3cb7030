"""How evaluations show games."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from gumbeldore.reports import Reports
from problems.common.panels import panels
from problems.gomoku.game import Board, Instance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCHES = 3.2  # width of a board


class GomokuReports(Reports):
    def __init__(self, board: Board):
        self.board = board

    def size(self, instance: Instance, horizon: int) -> str:
        """The sides of the board"""
        return f"{self.board.size}x{self.board.size}"

    def named_solution(self, originals: Instance, index: int, actions: Tensor) -> dict[str, list[int]]:
        """`moves`: the cells of our stones, in their order, up to the end of the game"""
        game = Instance(originals.start[index : index + 1])
        return {"moves": actions[: self.board.lengths(game, actions[None])].tolist()}

    def render(self, instance: Instance, actions: Tensor, titles: list[str]) -> Figure:
        """A figure with a board per game, its stones numbered in the order of the moves; the opponent's are black."""
        figure, axes = panels(titles, INCHES, INCHES + 0.3, actions)
        size = self.board.size
        for panel, numbers in zip(axes, self.board.numbered(instance, actions).tolist(), strict=True):
            panel.hlines(range(size), 0, size - 1, color="0.6", linewidth=0.6, zorder=1)
            panel.vlines(range(size), 0, size - 1, color="0.6", linewidth=0.6, zorder=1)
            for cell, number in enumerate(numbers):
                if number:
                    y, x = divmod(cell, size)
                    face, text = ("black", "white") if number % 2 else ("white", "black")
                    panel.scatter([x], [y], s=130, color=face, edgecolors="black", zorder=2)
                    panel.text(x, y, str(number), ha="center", va="center", fontsize=7, color=text, zorder=3)
            panel.set(aspect="equal", xticks=[], yticks=[], frame_on=False)
            panel.set(xlim=(-0.6, size - 0.4), ylim=(size - 0.4, -0.6))
        return figure
