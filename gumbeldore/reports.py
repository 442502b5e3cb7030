"""What only the tables, files and pictures of an evaluation ask of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Reports:
    """How instances and solutions of a problem are shown. All methods have defaults.

    A problem with more to show has a subclass of its own: `reports = MyReports()` in the problem's class.
    """

    def size(self, instance: Any, horizon: int) -> str:
        """The size of a batch of instances, as tables show it. Default: the number of decisions.

        Arguments:
            horizon: T, the number of decisions of every solution
        """
        return f"{horizon} decisions"

    def solution(self, actions: Tensor) -> list:
        """One solution [T] in the user's terms, e.g. the nodes of a tour. Default: the actions."""
        return actions.tolist()

    def named_solution(self, originals: Any, index: int, actions: Tensor) -> dict[str, Any]:
        """One solution by the words that the problem's users know, e.g. {"tour": [0, 3, ...]}. Default: its decisions.

        Arguments: as in `details`
        """
        return {"decisions": actions.tolist()}

    def actions_of(self, originals: Any, index: int, solution: Any) -> Tensor:
        """The decisions [T] of a solution in the words of `named_solution`, which may come from elsewhere.

        Arguments:
            originals, index: as in `details`

        Raises ValueError for what is no solution. Default: always, only decisions are known.
        """
        raise ValueError("it must be a Result of gumbeldore.solve: this problem knows no other words for a solution")

    def describe(self, actions: Tensor) -> dict[str, Tensor]:
        """Further numbers [n] of solutions [n, T], by the name of their column, e.g. of routes. Default: none."""
        return {}

    def details(self, originals: Any, index: int, actions: Tensor) -> tuple[str, list[str], list[list]] | None:
        """One solution's rows in a table of all solutions. Default: None, no such table.

        Arguments:
            originals: the instances of an InstanceSet in their own units
            index: of the instance among the originals
            actions: [T]

        Returns the name of the table's file and the names of the columns, the same for all solutions, and the rows.
        """
        return None

    def solution_file(
        self, originals: Any, index: int, name: str, actions: Tensor, cost: float
    ) -> tuple[str, str] | None:
        """The suffix and the text of one solution's file for other programs. Default: None, no such file.

        Arguments:
            originals, index, actions: as in `details`
            name: of the instance
            cost: of the solution
        """
        return None

    def has_files(self, originals: Any, index: int) -> bool:
        """Whether an evaluation writes the `solution_file` of an instance. Default: True."""
        return True

    def remarks(self, originals: list[Any]) -> list[str]:
        """Lines below the table of an evaluation: what one has to know of the instances. Default: none.

        Arguments:
            originals: of each InstanceSet
        """
        return []

    def render(self, instance: Any, actions: Tensor, titles: list[str]) -> Figure | None:
        """A figure of solutions [R, T], a panel each below its title. Default: None, no picture.

        Arguments:
            instance: R instances, of the InstanceSet's `instances` or of its `originals`
        """
        return None
