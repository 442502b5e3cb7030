"""What all search methods have in common."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from gumbeldore.runtime.checked import Checked, at_least, check_integer
from gumbeldore.sampler.beam import Count, OutOfTime
from gumbeldore.sampler.solutions import Round, Solutions
from gumbeldore.sampler.task import SearchTask
from gumbeldore.sampler.trie_search import Beams, Size, TrieFull, TrieSearch, trie_bytes

MOST = 2**31 - 1  # solutions of an instance; more fit into no memory, and places in a trie are products of such numbers


def at_least_one(default: Any) -> Any:
    """A field for a number of solutions, or of what makes solutions."""
    return at_least(1, default, MOST)


@dataclass(frozen=True)
class Method(Checked, ABC):
    """How to search: a frozen dataclass of settings, called with what is to be searched.

    Raises ValueError for settings out of range.
    """

    random: ClassVar[bool] = True  # whether the result depends on random numbers
    takes_start: ClassVar[bool] = False  # whether it improves given solutions

    @abstractmethod
    def __call__(self, task: SearchTask) -> Solutions:
        """The solutions of all instances, without gradients, by a policy in evaluation mode."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Beam positions that are searched together for an instance."""

    @abstractmethod
    def most_solutions(self, horizon: int) -> int:
        """How many solutions of so many decisions there are at most, per instance; without a time limit."""

    @abstractmethod
    def trie_memory(self, task: SearchTask) -> int:
        """Bytes that the tries of each of the task's instances take at most; without a time limit."""

    def check(self, task: SearchTask) -> None:  # noqa: B027  (most methods need nothing)
        """Raises ValueError if the problem does not offer what the method needs for instances of this size."""


class Timed(Method):
    """A method that knows `until`; `endless` says whether more time finds more."""

    endless: ClassVar[bool] = True  # whether more time finds more
    share_of_start: ClassVar[float] = 1.0  # of a time limit: the greedy solution may take so much, if there are rules
    needs_greedy: ClassVar[bool] = True  # whether it begins beside a greedy solution

    @abstractmethod
    def until(self, task: SearchTask, greedy: Solutions) -> Solutions:
        """Search until the task's deadline, beside greedy solutions, which count where they are better."""


class Rounds(Timed):
    """A method that searches in rounds."""

    @abstractmethod
    def rounds(self, task: SearchTask) -> Iterator[Round]:
        """Round after round, until there is nothing more to find.

        Raises OutOfTime at the task's deadline, and TrieFull where the trie would outgrow the task's memory.
        """

    @abstractmethod
    def count(self, horizon: int) -> int:
        """The number of rounds that make a search, for solutions of so many decisions; without a time limit."""

    def __call__(self, task: SearchTask) -> Solutions:
        return self.found(task).solutions(task.batch)

    def found(self, task: SearchTask) -> Found:
        """The rounds that make a search; fewer where the task's deadline cuts them off."""
        return collected(itertools.islice(self.rounds(task), self.count(task.horizon)))

    def until(self, task: SearchTask, greedy: Solutions) -> Solutions:
        return beside(greedy, collected(self.rounds(task)))


class BeamRounds(Rounds):
    """A method whose rounds are beams over one trie."""

    beam_width: int
    num_rounds: int

    def __post_init__(self) -> None:
        super().__post_init__()
        # As Python's integers, which cannot overflow as NumPy's can.
        check_integer("beam_width * num_rounds", int(self.beam_width) * int(self.num_rounds), 1, MOST)

    @property
    @abstractmethod
    def beams(self) -> Beams:
        """The beams of an instance in each round."""

    def search(self, task: SearchTask) -> TrieSearch:
        """The beams and the trie of all rounds."""
        return TrieSearch(task, self.beams, self.size(task))

    def size(self, task: SearchTask) -> Size:
        """How large the trie is, without a time limit."""
        return Size(task.horizon, self.count(task.horizon), self._single_round(task))

    def _single_round(self, task: SearchTask) -> bool:
        """Whether there is one round alone."""
        return self.count(task.horizon) == 1 and not (self.endless and task.deadline < math.inf)

    @property
    def rows(self) -> int:
        return self.beam_width

    def count(self, horizon: int) -> int:
        return self.num_rounds

    def most_solutions(self, horizon: int) -> int:
        return self.beam_width * self.count(horizon)

    def trie_memory(self, task: SearchTask) -> int:
        return trie_bytes(task, self.beams, self.size(task))


class Found(NamedTuple):
    """What rounds found."""

    rounds: list[Round]
    states: Count  # of a round that was abandoned at the deadline
    full: bool  # they ended where the trie would have outgrown the memory

    def solutions(self, batch: int) -> Solutions:
        """The solutions of so many instances. There must be a round."""
        return Solutions.of(self.rounds, batch, self.states, self.full)


NOTHING = Found([], Count(), full=False)


def collected(rounds: Iterable[Round]) -> Found:
    """All rounds, up to the deadline and the end of the memory."""
    found: list[Round] = []
    try:
        for each in rounds:
            found.append(each)
    except OutOfTime as late:
        return Found(found, late.states, full=False)
    except TrieFull:
        return Found(found, Count(), full=True)
    return Found(found, Count(), full=False)


def beside(greedy: Solutions, found: Found) -> Solutions:
    """The solutions of rounds, and the greedy ones where they are better; these alone if no round ended in time."""
    if not found.rounds:
        return greedy._replace(stats=greedy.stats.plus(found.states)._replace(rounds=0, full=found.full))
    both = found.solutions(len(greedy.costs)).with_better(*greedy.best())
    return both._replace(stats=both.stats.plus(greedy.stats.states))
